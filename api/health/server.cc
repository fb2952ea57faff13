#include "api/health/server.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "api/health/answers.h"
#include "api/health/connections.h"
#include "api/health/event.h"
#include "api/health/http_point.h"
#include "api/health/service_points.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

void LogLibevent(int severity, const char* message) {
  spdlog::log(severity >= EVENT_LOG_WARN ? spdlog::level::warn : spdlog::level::debug,
              "libevent: {}", message);
}

}  // namespace

class HealthServer::Impl {
 public:
  explicit Impl(HealthServerOptions options)
      : options_(std::move(options)),
        connections_(base_.get(), options_.max_connections, options_.patience),
        proxy_point_(base_.get(), connections_,
                     [this](const std::string& path) { return ProxyAnswer(path); }),
        service_points_(base_.get(), connections_, options_.health, options_.retry),
        woken_(base_.get(), wake_.get(), EV_READ | EV_PERSIST, [this] { OnWake(); }),
        retry_(base_.get(), [this] { OpenProxyPoint(); }),
        tick_(base_.get(), -1, EV_PERSIST, [this] { options_.on_tick(); }) {}
  ~Impl();

  absl::Status Start();
  void Update(proxy::HealthCheckChanges changes);
  void SetListenAddresses(std::vector<IpAddress> addresses);

 private:
  Answer ProxyAnswer(const std::string& path) const;
  void OpenProxyPoint();
  void Wake();
  void OnWake();
  void Run();

  const HealthServerOptions options_;
  const EventBase base_{event_base_new()};
  const UniqueFd wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  std::mutex mutex_;
  // Guarded by mutex_: what the thread was told and has not taken.
  bool updated_ = false;
  proxy::HealthCheckChanges changes_;
  std::optional<std::vector<IpAddress>> addresses_;
  bool stopping_ = false;

  // Only on the server's thread once it runs.
  Connections connections_;
  HttpPoint proxy_point_;
  absl::Status proxy_failure_;
  ServicePoints service_points_;
  Event woken_, retry_, tick_;
  std::thread thread_;
};

HealthServer::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

absl::Status HealthServer::Impl::Start() {
  event_set_log_callback(LogLibevent);
  if (options_.bind_address) OpenProxyPoint();
  if (!proxy_failure_.ok() && options_.bind_hard_fail) return proxy_failure_;
  woken_.Wait();
  if (options_.tick.count() > 0) tick_.After(options_.tick);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void HealthServer::Impl::OpenProxyPoint() {
  absl::Status status = proxy_point_.Open(*options_.bind_address, Stack::kBoth);
  if (status.ok()) {
    spdlog::info("/healthz and /livez are served on {}", options_.bind_address->ToString());
  } else if (!options_.bind_hard_fail) {
    if (status != proxy_failure_) {
      spdlog::warn("/healthz and /livez are not served: {}; trying again every {} s",
                   std::string(status.message()),
                   std::chrono::duration<double>(options_.retry).count());
    }
    retry_.After(options_.retry);
  }
  proxy_failure_ = std::move(status);
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
    updated_ = true;
    std::move(changes.begin(), changes.end(), std::back_inserter(changes_));
  }
  Wake();
}

void HealthServer::Impl::SetListenAddresses(std::vector<IpAddress> addresses) {
  {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  Wake();
}

// Fails only where the thread was woken more often than a counter can count.
void HealthServer::Impl::Wake() { eventfd_write(wake_.get(), 1); }

void HealthServer::Impl::OnWake() {
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  bool updated = false;
  proxy::HealthCheckChanges changes;
  std::optional<std::vector<IpAddress>> addresses;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) event_base_loopbreak(base_.get());
    std::swap(updated, updated_);
    changes.swap(changes_);
    addresses.swap(addresses_);
  }
  if (addresses) service_points_.SetAddresses(*std::move(addresses));
  if (updated) service_points_.Update(changes);
}

void HealthServer::Impl::Run() {
  sigset_t all;  // Also SIGPIPE, for those who do not wait for their answer.
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  event_base_dispatch(base_.get());
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
