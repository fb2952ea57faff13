#include "api/metrics/server.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "api/health/connections.h"
#include "api/health/event_thread.h"

namespace svcmap::api {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

Answer Page(std::string content_type, std::string body) {
  return {
      .code = 200,
      .headers = {{"Content-Type", std::move(content_type)}, {"X-Content-Type-Options", "nosniff"}},
      .body = std::move(body)};
}

}  // namespace

Answer TextPage(std::string body) { return Page("text/plain; charset=utf-8", std::move(body)); }

Answer JsonPage(std::string body) { return Page("application/json", std::move(body)); }

Answer MetricsPage(std::string body) { return Page(kMetricsType, std::move(body)); }

class MetricsServer::Impl {
 public:
  Impl(MetricsServerOptions options, const Observations& observations)
      : options_(std::move(options)),
        observations_(observations),
        connections_(thread_.base(), options_.max_connections, options_.patience),
        address_(thread_.base(), connections_,
                 [this](const std::string& path) { return AnswerTo(path); },
                 {options_.bind_address, options_.bind_hard_fail, options_.retry, "/metrics"}) {}
  ~Impl() { thread_.Stop(); }

  absl::Status Start() {
    if (absl::Status opened = address_.Open(); !opened.ok()) return opened;
    thread_.Start();
    return absl::OkStatus();
  }

 private:
  Answer AnswerTo(const std::string& path) const;
  std::string Statusz() const;

  const MetricsServerOptions options_;
  const Observations& observations_;

  EventThread thread_;
  // Used only on the server's thread after Start().
  Connections connections_;
  ServedAddress address_;
};

Answer MetricsServer::Impl::AnswerTo(const std::string& path) const {
  if (path == "/metrics") {
    return MetricsPage(MetricsText(options_.facts(), options_.constants, observations_));
  }
  if (path == "/metrics/slis") return MetricsPage(SliText(options_.facts(), observations_));
  if (path == "/healthz") return TextPage("ok");
  if (path == "/proxyMode") return TextPage("nftables");
  if (path == "/statusz") return TextPage(Statusz());
  const auto page = options_.pages.find(path);
  return page != options_.pages.end() ? page->second() : NotFoundAnswer();
}

// Returns kube-proxy's page /statusz without the fields that exist only in Go programs.
std::string MetricsServer::Impl::Statusz() const {
  const auto up = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now() - options_.constants.started)
                      .count();
  std::string text = "svcmapd statusz\n\n";
  absl::StrAppend(
      &text, "Started: ",
      absl::FormatTime("%a %b %e %H:%M:%S UTC %Y", absl::FromChrono(options_.constants.started),
                       absl::UTCTimeZone()));
  absl::StrAppendFormat(&text,
                        "\nUp: %d hr %02d min %02d sec\nBinary version: %s\nPaths:", up / 3600,
                        up / 60 % 60, up % 60, options_.constants.version);
  for (const char* path : {"/healthz", "/metrics", "/metrics/slis", "/proxyMode", "/statusz"}) {
    absl::StrAppend(&text, " ", path);
  }
  for (const auto& [path, page] : options_.pages) absl::StrAppend(&text, " ", path);
  return text + "\n";
}

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    MetricsServerOptions options, const Observations& observations) {
  auto impl = std::make_unique<Impl>(std::move(options), observations);
  if (absl::Status started = impl->Start(); !started.ok()) return started;
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

}  // namespace svcmap::api
