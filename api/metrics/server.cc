#include "api/metrics/server.h"

#include "api/health/connections.h"
#include "api/health/event_thread.h"

namespace svcmap::api {
namespace {

// Without a charset Prometheus would have to guess.
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

Answer Page(std::string content_type, std::string body) {
  return {
      .code = 200,
      .headers = {{"Content-Type", std::move(content_type)}, {"X-Content-Type-Options", "nosniff"}},
      .body = std::move(body)};
}

}  // namespace

Answer TextPage(std::string body) { return Page("text/plain; charset=utf-8", std::move(body)); }

class MetricsServer::Impl {
 public:
  Impl(MetricsServerOptions options, const Observations& observations)
      : options_(std::move(options)),
        observations_(observations),
        connections_(thread_.base(), options_.max_connections, options_.patience),
        address_(thread_.base(), connections_,
                 [this](const std::string& path) { return AnswerTo(path); },
                 {options_.bind_address, options_.bind_hard_fail, options_.retry, "/metrics is"}) {}
  ~Impl() { thread_.Stop(); }

  absl::Status Start() {
    if (absl::Status opened = address_.Open(); !opened.ok()) return opened;
    thread_.Start();
    return absl::OkStatus();
  }

 private:
  Answer AnswerTo(const std::string& path) const;

  const MetricsServerOptions options_;
  const Observations& observations_;

  EventThread thread_;
  // Only on the thread once it runs.
  Connections connections_;
  ServedAddress address_;
};

Answer MetricsServer::Impl::AnswerTo(const std::string& path) const {
  if (path == "/metrics") {
    return Page(kMetricsType, MetricsText(options_.facts(), options_.constants, observations_));
  }
  if (path == "/metrics/slis") return Page(kMetricsType, SliText(options_.facts(), observations_));
  if (path == "/healthz") return TextPage("ok");
  if (path == "/proxyMode") return TextPage("nftables");
  const auto page = options_.pages.find(path);
  return page != options_.pages.end() ? page->second() : NotFoundAnswer();
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
