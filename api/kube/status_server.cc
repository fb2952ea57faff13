#include "api/kube/status_server.h"

#include <utility>

#include "api/health/connections.h"
#include "api/health/event_thread.h"
#include "api/health/served_address.h"
#include "api/metrics/server.h"

namespace svcmap::kube {

class StatusServer::Impl {
 public:
  Impl(const api::BindAddress& at, std::function<BridgeFacts()> facts)
      : facts_(std::move(facts)),
        connections_(thread_.base(), /*max=*/64, std::chrono::seconds(30)),
        address_(thread_.base(), connections_,
                 [this](const std::string& path) { return AnswerTo(path); },
                 {.at = at, .what = "/healthz, /livez and /metrics"}) {}
  ~Impl() { thread_.Stop(); }

  absl::Status Start() {
    if (absl::Status opened = address_.Open(); !opened.ok()) return opened;
    thread_.Start();
    return absl::OkStatus();
  }

 private:
  api::Answer AnswerTo(const std::string& path) const {
    if (path == "/livez") return api::TextPage("ok");
    if (path == "/healthz") return KubeHealthzAnswer(facts_());
    if (path == "/metrics") return api::MetricsPage(KubeMetricsText(facts_(), SVCMAP_VERSION));
    return api::NotFoundAnswer();
  }

  const std::function<BridgeFacts()> facts_;
  api::EventThread thread_;
  // Only used on the thread after Start.
  api::Connections connections_;
  api::ServedAddress address_;
};

StatusServer::StatusServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StatusServer::~StatusServer() = default;

absl::StatusOr<std::unique_ptr<StatusServer>> StatusServer::Start(
    const api::BindAddress& at, std::function<BridgeFacts()> facts) {
  auto impl = std::make_unique<Impl>(at, std::move(facts));
  if (absl::Status started = impl->Start(); !started.ok()) return started;
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(impl)));
}

}  // namespace svcmap::kube
