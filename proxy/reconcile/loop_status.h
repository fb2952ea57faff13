// The results and the status of the reconcile loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nft/model/transaction.h"
#include "proxy/applied/applied.h"
#include "proxy/conntrack/endpoint_events.h"
#include "proxy/conntrack/udp_flows.h"
#include "proxy/health/health.h"
#include "proxy/localhost/nodeports.h"
#include "proxy/reconcile/stages.h"
#include "proxy/reconcile/states.h"
#include "proxy/repair/repairer.h"
#include "proxy/state/objects.h"
#include "proxy/state/standing_findings.h"

namespace svcmap::proxy {

// Numbers of changes of Services and of EndpointSlices. Changes of other kinds are rare and not
// counted.
struct ChangeCounts {
  uint64_t services = 0;
  uint64_t slices = 0;

  void Count(Kind kind) {
    if (kind == Kind::kService) ++services;
    if (kind == Kind::kEndpointSlice) ++slices;
  }
  ChangeCounts& operator+=(const ChangeCounts& more) {
    services += more.services;
    slices += more.slices;
    return *this;
  }
  ChangeCounts& operator-=(const ChangeCounts& fewer) {
    services -= fewer.services;
    slices -= fewer.slices;
    return *this;
  }
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

// A snapshot whose end would remove too many objects. The end of the snapshot waits until an
// operator accepts the removals, a later change of the controller lists more objects, or another
// snapshot begins.
struct HeldSnapshot {
  std::string loss;  // "95 of 100 Services"
  std::chrono::system_clock::time_point since;
};

struct LoopStatus {
  Phase phase = Phase::kWaiting;
  uint64_t revision = 0;
  size_t services = 0, slices = 0, nodes = 0, service_cidrs = 0;
  uint64_t object_bytes = 0;     // Size of all stored objects as received.
  uint64_t object_elements = 0;  // Store::elements().
  size_t pending_services = 0;
  size_t service_ports = 0;
  SetCounts elements = {};
  uint64_t commits = 0, recreations = 0, failures = 0;
  uint64_t repairs = 0;  // Number of repairs after a check found differences.
  uint64_t repaired_elements = 0, repaired_chains = 0;
  size_t leftovers = 0;          // Number of elements that wait for their deletion.
  uint64_t audits = 0;           // Number of completed audits of all applied rows.
  size_t rejected_services = 0;  // Services that the kernel has rejected.
  // Reasons why parts of Services are not programmed. Never null.
  StandingFindings::List findings = std::make_shared<std::vector<Finding>>();
  // The snapshot whose removals are held. See LoopOptions::hold_removals.
  std::optional<HeldSnapshot> held_snapshot;
  // True if the complete state was received or restored, and was in the kernel at least once.
  bool complete = false;
  // Like `complete`, but true only if a controller has sent a snapshot or offered the matching
  // state token in this run. Saved state of the previous run and single changes do not count.
  bool confirmed = false;
  // True if all reported changes to svcmap's tables by other processes were checked and repaired.
  bool verified = false;
  // Last time at which `verified` was true.
  std::optional<std::chrono::steady_clock::time_point> last_verified;
  // Time at which the oldest change that is not in the kernel was received. Absent if all changes
  // are in the kernel, or while rules of the previous run are in effect.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  // Time of the last successful sync. Initially the start of the loop.
  std::chrono::system_clock::time_point last_sync;
  // Whether load balancers may send traffic to this node (S-253), from its last known Node object.
  bool node_eligible = false;
  bool node_known = false;  // Whether the Node object of this node is stored.
  std::chrono::nanoseconds last_commit_duration{0};
  size_t last_commit_elements = 0;
  std::chrono::system_clock::time_point last_commit_time;
  uint64_t elements_written = 0;  // Number of elements that commits and repairs added or deleted.
  StageTime programming_latency;  // Includes all changes with a trigger time.
  StageTimes stages;              // Includes all completed turns.
  std::string last_error;         // Empty if the last sync or repair succeeded.
  ChangeCounts changes;           // All received changes, including changes without an effect.
  ChangeCounts waiting_changes;   // Changes of batches that have not been accepted yet.
  // Accepted changes with an effect that are not in the kernel yet.
  ChangeCounts pending_changes;
  // Time at which the last batch was submitted. Initially the start of the loop.
  std::chrono::system_clock::time_point last_queued;
  NoLocalEndpoints no_local_endpoints;
};

}  // namespace svcmap::proxy
