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
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/health/bind_address.h"
#include "nft/types/ip_address.h"
#include "proxy/health/health.h"

namespace svcmap::api {

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
  ~HealthServer();

  // Call Update after each successful sync, even if nothing has changed, because Update also
  // retries failed ports (S-261).
  void Update(proxy::HealthCheckChanges changes);

  // Sets the addresses on which healthCheckNodePorts listen. An unspecified address means all
  // addresses of its family (S-260). No healthCheckNodePort listens before the first call of
  // SetListenAddresses.
  void SetListenAddresses(std::vector<IpAddress> addresses);

 private:
  class Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::api
