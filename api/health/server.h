// What asks this node whether it works: /healthz and /livez of the proxy
// (docs/specification.md, 6.1), and load balancers about single Services at their
// healthCheckNodePort (6.2).
//
// One thread, one event loop, HTTP by libevent. All methods may be called from any thread and
// return at once. Nobody who asks can hold up the others, nor make us keep more than a bounded
// amount of memory and descriptors for him (api/health/connections.h).
#pragma once

#include <chrono>
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
  std::optional<BindAddress> bind_address;  // Of /healthz and /livez; nothing: they are not served.
  // Start fails if `bind_address` cannot be had; otherwise it is tried again (S-258).
  bool bind_hard_fail = false;
  std::function<proxy::Health()>
      health;  // For each answer, on the server's thread; must not block.
  std::chrono::milliseconds retry{5000};  // After an address could not be had.
  // After each answer to /healthz and /livez, and to whatever else is asked there, with its code;
  // on the server's thread, must not block.
  std::function<void(const std::string& path, int code)> on_answer;

  // Called on the server's thread about this often; zero: never.
  std::chrono::microseconds tick{0};
  std::function<void()> on_tick;

  // Beyond these, connections are closed, the ones silent for the longest time first.
  size_t max_connections = 1024;
  std::chrono::milliseconds patience{30000};  // For a whole request.
};

class HealthServer {
 public:
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(HealthServerOptions options);
  ~HealthServer();

  // After each successful sync: what changed, possibly nothing. What could not be listened on is
  // tried again (S-261).
  void Update(proxy::HealthCheckChanges changes);

  // Where healthCheckNodePorts are listened on; an unspecified address stands for all of its family
  // (S-260). Nowhere until this is called.
  void SetListenAddresses(std::vector<IpAddress> addresses);

 private:
  class Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::api
