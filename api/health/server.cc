#include "api/health/server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "api/log/log_value.h"
#include "proxy/state/objects.h"

namespace svcmap::api {
namespace {

// Delay between an update and a retry of failed listeners, which limits the number of retries
// during frequent updates.
constexpr std::chrono::milliseconds kSoon{100};

void LogFailure(const std::string& service, Family family, uint16_t port,
                const absl::Status& failure) {
  spdlog::warn(
      "cannot listen on healthCheckNodePort, retrying service={} port={} family={} error={}",
      LogValue(service), port, std::string(FamilyName(family)), LogValue(failure));
}

}  // namespace

HealthServer::HealthServer(HealthServerOptions options)
    : options_(std::move(options)),
      thread_([this] { OnWake(); }),
      connections_(thread_.base(), options_.max_connections, options_.patience),
      service_points_(thread_.base(), connections_, options_.health, options_.retry,
                      options_.max_service_sockets),
      tick_(thread_.base(), -1, EV_PERSIST, [this] { options_.on_tick(); }) {}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(HealthServerOptions options) {
  std::unique_ptr<HealthServer> server(new HealthServer(std::move(options)));
  if (const absl::Status opened = server->Open(); !opened.ok()) return opened;
  server->thread_.Start();
  return server;
}

absl::Status HealthServer::Open() {
  if (options_.tick.count() > 0) tick_.After(options_.tick);
  if (!options_.bind_address) return absl::OkStatus();
  proxy_point_.emplace(
      thread_.base(), connections_,
      [this](const HttpPoint::Request& request) { return AnswerTo(request.path); },
      ServedAddressOptions{*options_.bind_address, options_.bind_hard_fail, options_.retry,
                           "/healthz and /livez"});
  return proxy_point_->Open();
}

Answer HealthServer::AnswerTo(const std::string& path) const {
  const SystemTime now = std::chrono::system_clock::now();
  Answer answer = path == "/healthz" ? HealthzAnswer(options_.health(), now)
                  : path == "/livez" ? LivezAnswer(options_.health(), now)
                                     : NotFoundAnswer();
  if (options_.on_answer) options_.on_answer(path, answer.code);
  return answer;
}

void HealthServer::Update(proxy::HealthCheckChanges changes) {
  {
    const std::lock_guard lock(mutex_);
    used_ |= !changes.empty();
    if (!used_) return;  // There is no failed port to retry.
    updated_ = true;
    std::move(changes.begin(), changes.end(), std::back_inserter(changes_));
  }
  thread_.Wake();
}

void HealthServer::SetListenAddresses(std::vector<IpAddress> addresses) {
  {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  thread_.Wake();
}

void HealthServer::OnWake() {
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

ServicePoints::ServicePoints(event_base* base, Connections& connections,
                             std::function<proxy::Health()> health, std::chrono::milliseconds retry,
                             size_t max_sockets)
    : base_(base),
      connections_(connections),
      health_(std::move(health)),
      retry_after_(retry),
      max_sockets_(max_sockets),
      retry_(base, [this] { Retry(); }) {}

// Closes listeners before opening new listeners, because a port may move from one Service to
// another Service.
void ServicePoints::Update(const proxy::HealthCheckChanges& changes) {
  std::set<Key> to_open;
  for (const auto& [service, check] : changes) {
    for (const Family family : kFamilies) Take({service, family}, check, to_open);
  }
  Open(to_open);
  if (failed_.empty() || soon_) return;
  soon_ = true;
  retry_.After(std::min(kSoon, retry_after_));
}

void ServicePoints::Take(const Key& key, const std::optional<proxy::HealthCheck>& check,
                         std::set<Key>& to_open) {
  const size_t family = Index(key.second);
  const bool wanted = check && check->families[family];
  const auto held = points_.find(key);
  if (held != points_.end() && (!wanted || held->second.port != check->port)) {
    if (held->second.http) open_sockets_ -= held->second.http->socket_count();
    points_.erase(held);
    failed_.erase(key);
    to_open.erase(key);
  }
  if (!wanted) return;
  Point& point = points_[key];
  point.local_endpoints = check->local_endpoints[family];
  if (point.http) return;
  point.port = check->port;
  point.http =
      std::make_unique<HttpPoint>(base_, connections_, [this, key](const HttpPoint::Request&) {
        return ServiceAnswer(key.first, points_.at(key).local_endpoints, health_());
      });
  to_open.insert(key);
}

void ServicePoints::SetAddresses(std::vector<IpAddress> addresses) {
  addresses_ = std::move(addresses);
  std::set<Key> keys;
  for (auto& [key, point] : points_) {
    CloseOthers(point, addresses_);
    keys.insert(key);
  }
  Open(keys);
}

void ServicePoints::Open(const std::set<Key>& keys) {
  for (const Key& key : keys) {
    Point& point = points_.at(key);
    absl::Status failure = TryToOpen(key, point);
    if (!failure.ok()) {
      CloseOthers(point, {});
      failed_.insert(key);
      if (failure != point.failure) LogFailure(key.first, key.second, point.port, failure);
    } else if (failed_.erase(key) > 0) {
      spdlog::info("listening on healthCheckNodePort service={} port={} family={}",
                   LogValue(key.first), point.port, std::string(FamilyName(key.second)));
    }
    point.failure = std::move(failure);
  }
  if (!failed_.empty() && !retry_.pending()) retry_.After(retry_after_);
}

void ServicePoints::CloseOthers(Point& point, const std::vector<IpAddress>& kept) {
  open_sockets_ -= point.http->socket_count();
  point.http->CloseOthers(kept);
  open_sockets_ += point.http->socket_count();
}

absl::Status ServicePoints::TryToOpen(const Key& key, Point& point) {
  for (const IpAddress& address : addresses_) {
    if (address.family() != key.second || point.http->IsOpen(address)) continue;
    if (open_sockets_ >= max_sockets_) {
      return absl::ResourceExhaustedError("all " + std::to_string(max_sockets_) +
                                          " file descriptors for healthCheckNodePorts are in use");
    }
    const absl::Status status = point.http->Open({address, point.port}, Stack::kOne);
    if (!status.ok()) return status;
    ++open_sockets_;
  }
  return absl::OkStatus();
}

void ServicePoints::Retry() {
  soon_ = false;
  Open(std::set<Key>(failed_));
}

}  // namespace svcmap::api
