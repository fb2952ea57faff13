#include "api/metrics/server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "api/limits/token_bucket.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

Answer Page(std::string content_type, std::string body, int code = 200) {
  return {
      .code = code,
      .headers = {{"Content-Type", std::move(content_type)}, {"X-Content-Type-Options", "nosniff"}},
      .body = std::move(body)};
}

// Limits the CPU time for rendering a page. If requests arrive faster than the limit permits, they
// receive the latest version of the page, which all responses share. Not thread-safe.
class PageCache {
 public:
  // Rendering uses at most a tenth of the time, after a burst of 200 ms. Each rendering counts as
  // at least 10 ms. Therefore a page that renders quickly is at most 100 ms old.
  explicit PageCache(std::function<std::string()> render)
      : render_(std::move(render)), seconds_(kBurst, kShare, Clock::now()) {}

  std::shared_ptr<const std::string> Get() {
    const auto before = Clock::now();
    if (page_ && !seconds_.Take(cost_, before)) return page_;
    page_ = std::make_shared<const std::string>(render_());
    const std::chrono::duration<double> took = Clock::now() - before;
    cost_ = std::clamp(took.count(), kLeastCost, kBurst);
    return page_;
  }

 private:
  using Clock = TokenBucket::Clock;
  static constexpr double kBurst = 0.2;
  static constexpr double kShare = 0.1;
  static constexpr double kLeastCost = 0.01;

  const std::function<std::string()> render_;
  TokenBucket seconds_;
  double cost_ = kLeastCost;  // Time of the latest rendering, in seconds.
  std::shared_ptr<const std::string> page_;
};

// Returns kube-proxy's page /statusz without the fields that exist only in Go programs.
std::string Statusz(const MetricsConstants& constants, const std::string& paths) {
  const auto up = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now() - constants.started)
                      .count();
  return absl::StrFormat(
      "svcmapd statusz\n\nStarted: %s\nUp: %d hr %02d min %02d sec\nBinary version: %s\nPaths:%s\n",
      absl::FormatTime("%a %b %e %H:%M:%S UTC %Y", absl::FromChrono(constants.started),
                       absl::UTCTimeZone()),
      up / 3600, up / 60 % 60, up % 60, constants.version, paths);
}

}  // namespace

Answer TextPage(std::string body, int code) {
  return Page("text/plain; charset=utf-8", std::move(body), code);
}

Answer JsonPage(std::string body) { return Page("application/json", std::move(body)); }

std::function<Answer()> MetricsPage(std::function<std::string()> render) {
  return [cache = std::make_shared<PageCache>(std::move(render))] {
    Answer answer = Page(kMetricsType, "");
    answer.shared_body = cache->Get();
    return answer;
  };
}

PageServer::PageServer(PageServerOptions options)
    : options_(std::move(options)),
      connections_(thread_.base(), kMaxConnections, options_.patience),
      address_(thread_.base(), connections_,
               [this](const HttpPoint::Request& request) {
                 const auto page = options_.pages.find(request.path);
                 return page == options_.pages.end() ? NotFoundAnswer() : page->second();
               },
               {.at = options_.bind_address,
                .hard_fail = options_.bind_hard_fail,
                .what = options_.what}) {}

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(PageServerOptions options) {
  std::unique_ptr<PageServer> server(new PageServer(std::move(options)));
  if (absl::Status opened = server->address_.Open(); !opened.ok()) return opened;
  server->thread_.Start();
  return server;
}

absl::StatusOr<std::unique_ptr<PageServer>> StartMetricsServer(PageServerOptions options,
                                                               std::function<MetricsFacts()> facts,
                                                               MetricsConstants constants,
                                                               const Observations& observations) {
  options.what = "/metrics";
  auto& pages = options.pages;
  std::string paths = " /healthz /metrics /metrics/slis /proxyMode /statusz";
  for (const auto& [path, page] : pages) absl::StrAppend(&paths, " ", path);
  pages["/metrics"] = MetricsPage(
      [facts, constants, &observations] { return MetricsText(facts(), constants, observations); });
  pages["/metrics/slis"] =
      MetricsPage([facts, &observations] { return SliText(facts(), observations); });
  pages["/healthz"] = [] { return TextPage("ok"); };
  pages["/proxyMode"] = [] { return TextPage("nftables"); };
  pages["/statusz"] = [constants, paths] { return TextPage(Statusz(constants, paths)); };
  return PageServer::Start(std::move(options));
}

}  // namespace svcmap::api
