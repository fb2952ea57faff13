// Whether this node's proxy works, as /healthz and /livez say it (semantics.md 6.1). Pure.
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
  std::optional<FamilyHealth> family[2];  // By Index(Family); nothing: not started (S-251).
  bool node_eligible = false;             // S-253
  // The kernel is known to hold what it should, and we would notice if it did not: stricter than
  // kube-proxy, which calls itself healthy before it has programmed anything.
  bool ready = false;
  std::string reason;  // Why it is not ready; empty when it is.
};

// No started family is unhealthy (S-252).
bool Live(const Health& health);

// What the reconcile loop knows of itself; it programs both families in one transaction.
struct LoopFacts {
  // When the oldest change was told that the kernel does not have yet.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  // Last successful sync; the start of the loop before that.
  std::chrono::system_clock::time_point last_synced;
  bool state_complete = false;  // We were told everything there is to serve, and it is programmed.
  bool verified = false;        // The tables were compared with what was wanted, or written whole.
  bool watching = false;        // Foreign changes would be noticed.
  bool node_eligible = false;   // Of the Node seen last; false: none was seen.
};

inline constexpr std::chrono::seconds kSyncPeriod{30};  // S-302

// S-251: unhealthy once a change has been waiting for twice the sync period.
Health MakeHealth(const LoopFacts& facts, std::chrono::steady_clock::time_point now,
                  std::chrono::nanoseconds sync_period = kSyncPeriod);

}  // namespace svcmap::proxy
