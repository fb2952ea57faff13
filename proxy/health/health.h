// Health of this node's proxy for /healthz and /livez. Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace svcmap::proxy {

struct Health {
  struct FamilyHealth {
    std::chrono::system_clock::time_point last_updated;
    bool healthy = false;
  };
  // Health by Index(Family). Nullopt until the family's sync loop starts (S-251).
  std::optional<FamilyHealth> family[2];
  bool node_eligible = false;  // True if load balancers may send traffic here (S-253).
  // True if the kernel contains the desired state and svcmapd detects changes by other processes.
  // `ready` is stricter than kube-proxy's condition, because kube-proxy reports a healthy state
  // before it has programmed any rule.
  bool ready = false;
  // Reason why the proxy is not ready or the node is not eligible. Empty if the proxy is ready and
  // the node is eligible.
  std::string reason;
};

// Returns true if no started family is unhealthy (S-252).
bool Live(const Health& health);

// Facts reported by the reconcile loop, which programs both families in one transaction.
struct LoopFacts {
  // Arrival time of the oldest change that is not committed yet.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  // Time of the last successful sync, or the start time of the loop if there was no sync yet.
  std::chrono::system_clock::time_point last_synced;
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

// A family is unhealthy if a change has waited for more than twice the sync period (S-251).
Health MakeHealth(const LoopFacts& facts, std::chrono::steady_clock::time_point now,
                  std::chrono::nanoseconds sync_period = kSyncPeriod);

}  // namespace svcmap::proxy
