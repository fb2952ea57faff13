// HTTP server of the health checks: /healthz and /livez of svcmapd (S-250..S-258), and the
// healthCheckNodePorts of Services (S-259..S-266).
//
// Runs a libevent event loop in one thread. All methods are thread-safe and do not block.
// A client cannot delay other clients, and the memory and file descriptors for clients are limited
// (api/health/connections.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "api/health/answers.h"
#include "api/health/bind_address.h"
#include "api/health/connections.h"
#include "api/health/event.h"
#include "api/health/http_point.h"
#include "nft/types/ip_address.h"
#include "proxy/health/health.h"

namespace svcmap::api {

// The listeners of healthCheckNodePorts, one per Service and IP family (S-259). Used only on the
// thread of the event loop.
class ServicePoints {
 public:
  // Opens at most `max_sockets` sockets, so that file descriptors remain for other parts of
  // svcmapd.
  ServicePoints(event_base* base, Connections& connections, std::function<proxy::Health()> health,
                std::chrono::milliseconds retry, size_t max_sockets);

  // Opens and closes listeners without affecting unchanged listeners. Also schedules a retry for
  // failed listeners (S-261).
  void Update(const proxy::HealthCheckChanges& changes);

  // An unspecified address means all addresses of its family.
  void SetAddresses(std::vector<IpAddress> addresses);

 private:
  using Key = std::pair<std::string, Family>;  // "namespace/name" of the Service, and IP family.
  struct Point {
    uint16_t port = 0;
    uint32_t local_endpoints = 0;
    absl::Status failure;  // The reason if listeners could not be opened, or OK.
    std::unique_ptr<HttpPoint> http;
  };

  // Adds new listeners to `to_open`, and closes a listener that is no longer needed.
  void Take(const Key& key, const std::optional<proxy::HealthCheck>& check, std::set<Key>& to_open);
  void Open(const std::set<Key>& keys);
  absl::Status TryToOpen(const Key& key, Point& point);
  void CloseOthers(Point& point, const std::vector<IpAddress>& kept);
  void Retry();

  event_base* base_;
  Connections& connections_;
  const std::function<proxy::Health()> health_;
  const std::chrono::milliseconds retry_after_;
  const size_t max_sockets_;
  size_t open_sockets_ = 0;  // Number of open sockets of all listeners.
  std::vector<IpAddress> addresses_;
  absl::flat_hash_map<Key, Point> points_;
  std::set<Key> failed_;
  Event retry_;
  bool soon_ = false;  // True if a retry after kSoon is pending.
};

struct HealthServerOptions {
  // Address of /healthz and /livez, or absent if svcmapd does not serve these paths.
  std::optional<BindAddress> bind_address;
  // True if Start returns an error when `bind_address` cannot be bound. If false, the server
  // retries failed binds (S-258).
  bool bind_hard_fail = false;
  // The server's thread calls `health` for each response. `health` must not block.
  std::function<proxy::Health()> health;
  std::chrono::milliseconds retry{5000};  // Time between attempts to bind an address.
  // The server's thread calls `on_answer` with the path and the status code after each response on
  // `bind_address`. `on_answer` must not block.
  std::function<void(const std::string& path, int code)> on_answer;

  // Approximate period of `on_tick`, which is called on the server's thread. Zero disables
  // `on_tick`.
  std::chrono::microseconds tick{0};
  std::function<void()> on_tick;

  // Limits for connections. See the class Connections for details.
  size_t max_connections = 1024;
  // Maximum number of sockets that listen on healthCheckNodePorts.
  size_t max_service_sockets = SIZE_MAX;
  std::chrono::milliseconds patience{30000};
};

class HealthServer {
 public:
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(HealthServerOptions options);
  ~HealthServer() { thread_.Stop(); }

  // Call Update after each successful sync, even if nothing has changed, because Update also
  // retries failed ports (S-261).
  void Update(proxy::HealthCheckChanges changes);

  // Sets the addresses on which healthCheckNodePorts listen. An unspecified address means all
  // addresses of its family (S-260). No healthCheckNodePort listens before the first call of
  // SetListenAddresses.
  void SetListenAddresses(std::vector<IpAddress> addresses);

 private:
  explicit HealthServer(HealthServerOptions options);
  absl::Status Open();
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

}  // namespace svcmap::api
