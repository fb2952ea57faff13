// Results of the reconciler's operations.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nft/model/transaction.h"
#include "proxy/conntrack/endpoint_events.h"
#include "proxy/conntrack/udp_flows.h"
#include "proxy/health/health.h"
#include "proxy/localhost/nodeports.h"
#include "proxy/state/objects.h"
#include "proxy/state/standing_findings.h"

namespace svcmap::proxy {

// Outcome of comparing some rows with the kernel.
struct RepairResult {
  enum class Outcome : uint8_t {
    kNothing,   // No differences.
    kRepaired,  // Differences were found and repaired.
    kRewrite,   // Found damage that the next Sync() repairs by a rewrite of the tables.
    kFailed,    // The kernel could not be read, or it rejected the repair.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;   // kFailed only.
  size_t elements = 0;  // Missing, wrong and unknown elements.
  size_t chains = 0;
  std::chrono::nanoseconds duration{0};
  // The last reported change by another process, such as "3 elements deleted from endpoints". May
  // be empty. Set by the loop.
  std::string damage;
  std::string process;  // The process that made the change, if known. Set by the loop.
};

// The outcome of a sync. The same value tells all followers of a commit (connection tracking,
// health checks, nodePorts on loopback addresses, watchers, metrics and log) what they need.
struct SyncResult {
  enum class Outcome : uint8_t {
    kNothing,    // No commit was necessary.
    kCommitted,  // The changes are in the kernel.
    kFailed,     // Not committed, or outcome unknown. The Services are dirty again.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;      // kFailed only.
  bool recreated = false;  // True if a complete rewrite was attempted.
  // Base chains with a wrong type, hook or priority that were created again, in nft notation.
  // Packets may have passed without translation before these chains were created again.
  std::vector<std::string> replaced_chains;
  // Results of repairs before the plan, if these repairs found differences or failed. Also set
  // after a failure.
  std::vector<RepairResult> repairs;
  size_t elements = 0;
  std::chrono::nanoseconds duration{0};  // Duration of the commit.
  // Durations of Stage::kPlan and Stage::kSave.
  std::chrono::nanoseconds plan_duration{0};
  std::chrono::nanoseconds save_duration{0};
  std::vector<PlanFinding>
      findings;  // Parts of the desired state that have no effect, with reasons.
  // Current UDP ports of all synced Services. Empty after a failure.
  std::vector<std::pair<std::string, UdpPorts>> udp;
  EndpointChanges endpoints;  // Endpoint changes of all synced Services. Empty after a failure.
  // Synced Services that have, or had, a healthCheckNodePort. Empty after a failure.
  HealthCheckChanges health_checks;
  std::optional<std::vector<IpAddress>> health_check_addresses;  // Present if they changed (S-260).
  // Synced Services that have, or had, nodePorts on loopback addresses. Empty after a failure.
  LocalhostNodePortChanges localhost_node_ports;
  // False if no Ack may be sent, because the objects are not saved, but the marker in the tables
  // states that they are saved. The next run would use the older objects on disk.
  bool may_answer = true;

  // The loop sets the following members.

  // Duration of the whole sync, including planning. 0 if there was nothing to sync.
  std::chrono::nanoseconds whole{0};
  // Network programming latencies of the changes that this sync has programmed.
  std::vector<std::pair<Family, std::chrono::nanoseconds>> programmed;
  // True if the complete state is in the store and all Services are synced. Until then, a Service
  // may be known without all of its slices, so flows must not be deleted.
  bool complete = false;
};

// Result of a dry run: the effect that changes would have if they were committed.
struct DryRun {
  // Elements deleted and added, in the order of the transaction, without the marker.
  nft::Transaction rows;
  // True if the tables would be rewritten. Even then, `rows` contains only the differences.
  bool recreates = false;
  std::vector<Finding> findings;  // Parts of the changes that would not be programmed.
  uint64_t revision = 0;          // The current revision.
  // The removals that would be held if a snapshot made these changes, such as "95 of 100 Services".
  // Empty if no removals would be held.
  std::string held;
};

}  // namespace svcmap::proxy
