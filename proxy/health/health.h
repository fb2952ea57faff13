// Health of this node's proxy for /healthz and /livez, and responses to load balancer health checks
// on healthCheckNodePorts. No function reads a clock or takes a lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/state/store.h"

namespace svcmap::proxy {

// The reconcile loop programs both families in one transaction, so they have the same health.
struct Health {
  // Time of the last successful sync, or the start time of the loop if there was no sync yet.
  std::chrono::system_clock::time_point last_synced;
  bool live = false;           // True if no change has waited too long (S-251, S-252).
  bool node_eligible = false;  // True if load balancers may send traffic here (S-253).
  // True if the kernel contains the desired state and svcmapd detects changes by other processes.
  // `ready` is stricter than kube-proxy's condition, because kube-proxy reports a healthy state
  // before it has programmed any rule.
  bool ready = false;
  // Reason why the proxy is not ready or the node is not eligible. Empty if the proxy is ready and
  // the node is eligible.
  std::string reason;
};

// Facts reported by the reconcile loop.
struct LoopFacts {
  // Arrival time of the oldest change that is not committed yet.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  std::chrono::system_clock::time_point last_synced;  // See Health.
  // True if the complete state was received from the controller and programmed.
  bool state_complete = false;
  // True if the tables were compared with the desired state or rewritten completely.
  bool verified = false;
  bool watching = false;       // True if changes by other processes are detected.
  bool node_eligible = false;  // True if the latest Node object is eligible. Initially false.
  bool node_known = false;     // True if the Node object is stored.
  std::string node_name;
};

inline constexpr std::chrono::seconds kSyncPeriod{30};  // Default sync period (S-302).

// The proxy is not live if a change has waited for more than twice the sync period (S-251).
Health MakeHealth(const LoopFacts& facts, std::chrono::steady_clock::time_point now,
                  std::chrono::nanoseconds sync_period = kSyncPeriod);

// The health check of a Service. Arrays are indexed by Index(Family).
struct HealthCheck {
  uint16_t port = 0;
  bool families[2] = {};             // Families in which the proxy listens (S-259).
  uint32_t local_endpoints[2] = {};  // Number of ready endpoints on this node (S-262).

  friend bool operator==(const HealthCheck&, const HealthCheck&) = default;
};

// Pairs of a Service key and the Service's health check. Nullopt if the Service has no health
// check.
using HealthCheckChanges = std::vector<std::pair<std::string, std::optional<HealthCheck>>>;

// Returns the health check of a Service. `entry` may be null. If several Services use the same
// port, only the Service that owns the port in `claims` gets a health check.
std::optional<HealthCheck> HealthCheckOf(const ServiceEntry* entry, const Claims& claims);

}  // namespace svcmap::proxy
