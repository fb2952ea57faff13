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
  // Indexed by Index(Family). Nullopt if the family is not started (S-251).
  std::optional<FamilyHealth> family[2];
  bool node_eligible = false;  // Load balancers may send traffic to this node (S-253).
  // The kernel contains the desired state, and changes by other processes are detected. This
  // condition is stricter than in kube-proxy, which reports healthy before it has programmed any
  // rule.
  bool ready = false;
  std::string reason;  // Reason why the proxy is not ready. Empty if it is ready.
};

// Returns true if no started family is unhealthy (S-252).
bool Live(const Health& health);

// Facts reported by the reconcile loop, which programs both families in one transaction.
struct LoopFacts {
  // Arrival time of the oldest change that is not committed yet.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  // Time of the last successful sync, or of the start of the loop before the first sync.
  std::chrono::system_clock::time_point last_synced;
  // The complete state was received from the controller and programmed.
  bool state_complete = false;
  // The tables were compared with the desired state or rewritten completely.
  bool verified = false;
  bool watching = false;       // Changes by other processes are detected.
  bool node_eligible = false;  // From the latest Node object. False before the first Node object.
};

inline constexpr std::chrono::seconds kSyncPeriod{30};  // Default sync period (S-302).

// A family is unhealthy if a change has waited for more than twice the sync period (S-251).
Health MakeHealth(const LoopFacts& facts, std::chrono::steady_clock::time_point now,
                  std::chrono::nanoseconds sync_period = kSyncPeriod);

}  // namespace svcmap::proxy
