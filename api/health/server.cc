#include "api/health/server.h"

#include <iterator>
#include <mutex>
#include <utility>

#include "api/health/answers.h"
#include "api/health/connections.h"
#include "api/health/event_thread.h"
#include "api/health/served_address.h"
#include "api/health/service_points.h"

namespace svcmap::api {

class HealthServer::Impl {
 public:
  explicit Impl(HealthServerOptions options)
      : options_(std::move(options)),
        thread_([this] { OnWake(); }),
        connections_(thread_.base(), options_.max_connections, options_.patience),
        service_points_(thread_.base(), connections_, options_.health, options_.retry,
                        options_.max_service_sockets),
        tick_(thread_.base(), -1, EV_PERSIST, [this] { options_.on_tick(); }) {}
  ~Impl() { thread_.Stop(); }

  absl::Status Start();
  void Update(proxy::HealthCheckChanges changes);
  void SetListenAddresses(std::vector<IpAddress> addresses);

 private:
  Answer ProxyAnswer(const std::string& path) const;
  Answer AnswerTo(const std::string& path) const;
  void OnWake();

  const HealthServerOptions options_;
  std::mutex mutex_;
  // Updates that the server's thread has not processed yet. Guarded by mutex_.
  bool updated_ = false;
  bool used_ = false;  // True if a Service has, or has had, a healthCheckNodePort.
  proxy::HealthCheckChanges changes_;
  std::optional<std::vector<IpAddress>> addresses_;

  EventThread thread_;
  // Used only on the server's thread after Start().
  Connections connections_;
  std::optional<ServedAddress> proxy_point_;
  ServicePoints service_points_;
  Event tick_;
};

absl::Status HealthServer::Impl::Start() {
  if (options_.bind_address) {
    proxy_point_.emplace(
        thread_.base(), connections_,
        [this](const HttpPoint::Request& request) { return AnswerTo(request.path); },
        ServedAddressOptions{*options_.bind_address, options_.bind_hard_fail, options_.retry,
                             "/healthz and /livez"});
    if (absl::Status opened = proxy_point_->Open(); !opened.ok()) return opened;
  }
  if (options_.tick.count() > 0) tick_.After(options_.tick);
  thread_.Start();
  return absl::OkStatus();
}

Answer HealthServer::Impl::AnswerTo(const std::string& path) const {
  Answer answer = ProxyAnswer(path);
  if (options_.on_answer) options_.on_answer(path, answer.code);
  return answer;
}

Answer HealthServer::Impl::ProxyAnswer(const std::string& path) const {
  const SystemTime now = std::chrono::system_clock::now();
  if (path == "/healthz") return HealthzAnswer(options_.health(), now);
  if (path == "/livez") return LivezAnswer(options_.health(), now);
  return NotFoundAnswer();
}

void HealthServer::Impl::Update(proxy::HealthCheckChanges changes) {
  {
    const std::lock_guard lock(mutex_);
    used_ |= !changes.empty();
    if (!used_) return;  // There is no failed port to retry.
    updated_ = true;
    std::move(changes.begin(), changes.end(), std::back_inserter(changes_));
  }
  thread_.Wake();
}

void HealthServer::Impl::SetListenAddresses(std::vector<IpAddress> addresses) {
  {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  thread_.Wake();
}

void HealthServer::Impl::OnWake() {
  bool updated = false;
  proxy::HealthCheckChanges changes;
  std::optional<std::vector<IpAddress>> addresses;
  {
    const std::lock_guard lock(mutex_);
    std::swap(updated, updated_);
    changes.swap(changes_);
    addresses.swap(addresses_);
  }
  if (addresses) service_points_.SetAddresses(*std::move(addresses));
  if (updated) service_points_.Update(changes);
}

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HealthServer::~HealthServer() = default;

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(HealthServerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (const absl::Status started = impl->Start(); !started.ok()) return started;
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(impl)));
}

void HealthServer::Update(proxy::HealthCheckChanges changes) { impl_->Update(std::move(changes)); }

void HealthServer::SetListenAddresses(std::vector<IpAddress> addresses) {
  impl_->SetListenAddresses(std::move(addresses));
}

}  // namespace svcmap::api
