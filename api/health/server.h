// HTTP server of the health checks: /healthz and /livez of svcmapd (S-250..S-258), and the
// healthCheckNodePorts of Services (S-259..S-266).
//
// Runs one thread with one event loop of libevent. All methods are thread-safe and do not block.
// A client cannot delay other clients, and its memory and file descriptors are limited
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
#include "proxy/health/health_check.h"

namespace svcmap::api {

struct HealthServerOptions {
  // Address of /healthz and /livez. If absent, these paths are not served.
  std::optional<BindAddress> bind_address;
  // If true, Start returns an error if `bind_address` cannot be bound. If false, the server retries
  // (S-258).
  bool bind_hard_fail = false;
  // Called for each response, on the server's thread. Must not block.
  std::function<proxy::Health()> health;
  std::chrono::milliseconds retry{5000};  // Time until a bind failure is retried.
  // Called after each response on `bind_address` with the path and the status code, on the server's
  // thread. Must not block.
  std::function<void(const std::string& path, int code)> on_answer;

  // Approximate period of `on_tick`, which is called on the server's thread. Zero disables it.
  std::chrono::microseconds tick{0};
  std::function<void()> on_tick;

  // Limits for connections, see the class Connections.
  size_t max_connections = 1024;
  // Maximum number of sockets that listen on healthCheckNodePorts.
  size_t max_service_sockets = SIZE_MAX;
  std::chrono::milliseconds patience{30000};
};

class HealthServer {
 public:
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(HealthServerOptions options);
  ~HealthServer();

  // Call after each successful sync, even without changes, because Update also retries failed ports
  // (S-261).
  void Update(proxy::HealthCheckChanges changes);

  // Sets the addresses on which healthCheckNodePorts listen. An unspecified address means all
  // addresses of its family (S-260). Before the first call, no healthCheckNodePort listens.
  void SetListenAddresses(std::vector<IpAddress> addresses);

 private:
  class Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::api
