// Brings the kernel to the state that the store holds, one transaction at a time: wanted rows of
// the Services that changed against what is applied, one batch, and the applied view moves only
// when the kernel has committed. The cost follows the change.
//
// When the kernel is not, or may not be, what we applied (start, a foreign change, an outcome that
// stays unknown), one transaction drops our tables and writes them whole: packets see the old rules
// or the new ones. Where the tables are known to be ours (a map must grow, a new affinity timeout,
// a restart) it writes them in place, and clients keep the endpoints that were recorded for them.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nft/model/kernel.h"
#include "proxy/conntrack/udp_ports.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/service.h"
#include "proxy/desired/sticky.h"
#include "proxy/explain/explain.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/reconcile/applied.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct ReconcilerOptions {
  std::string node_name;
  NodePortAddresses node_port_addresses;
  RulesetOptions ruleset;
};

struct SyncResult {
  enum class Outcome : uint8_t {
    kNothing,    // Nothing to write; the kernel was not asked.
    kCommitted,  // In the kernel.
    kFailed,     // Not, or not known to be, in the kernel; what was taken is dirty again.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;  // kFailed only.
  bool recreated = false;
  size_t elements = 0;
  std::chrono::nanoseconds duration{0};  // Of the commit.
  // What is not programmed, with the sequence of the change that showed it.
  std::vector<std::pair<uint64_t, Finding>> findings;
  // Unless it failed: the UDP ports, as they are now, of all Services that were taken.
  std::vector<std::pair<std::string, UdpPorts>> udp;
};

class Reconciler {
 public:
  Reconciler(nft::Kernel& kernel, ReconcilerOptions options);

  Store& store() { return store_; }
  const Store& store() const { return store_; }

  // The node's own addresses, whenever they change.
  void SetInterfaceAddresses(std::vector<IpAddress> addresses);

  // The kernel is no longer what we applied; the next Sync writes everything.
  void Invalidate() {
    recreate_ = true;
    in_place_ = false;
  }

  // Reads what a former life left; true if our tables are there. Revisions go on from theirs.
  absl::StatusOr<bool> Adopt();

  // The state is complete: what a former life had and nobody asked for can be forgotten.
  void ForgetFormerLife() { memory_.Forget(numbers_); }

  // True when there is something to write.
  bool Pending() const;

  // At most one transaction, of the Services that changed first. It stops taking more once it has
  // `element_limit` elements; one Service is never split.
  SyncResult Sync(size_t element_limit);

  // Grows with every commit that changed something, also over restarts.
  uint64_t revision() const { return applied_.marker().generation; }
  const Applied& applied() const { return applied_; }
  absl::StatusOr<uint32_t> KernelGeneration() { return kernel_.Generation(); }

  // What the rows are made from; valid until the next call of anything else.
  ExplainContext ContextForExplain();
  // How the kernel differs from what is wanted of `question`'s destination, one line each; empty:
  // it agrees. `explained` is Explain's answer to it.
  absl::StatusOr<std::vector<std::string>> Disagreements(const nft::TableSpecs& tables,
                                                         const Question& question,
                                                         const Explained& explained);

  // Every row that is wanted but the marker, as if the tables were written anew; for dumps.
  nft::Transaction DesiredRows();
  // The same of what is applied.
  nft::Transaction AppliedRows() const;
  // What the next transactions would change.
  nft::Transaction PendingRows();

 private:
  struct Draft;  // A plan with what becomes true when it is committed.
  class Preview;

  Draft MakeDraft(size_t element_limit);
  Draft MakeRecreation(size_t element_limit);
  DesiredContext Context() { return {store_.claims(), node_, numbers_, timers_, memory_}; }
  const Node* ThisNode() const;
  absl::Status AdoptAffinity();
  void AddDirty(Draft& draft, size_t element_limit);
  bool Fits(const Draft& draft) const;
  SetCounts Expected(SetCounts counts) const;
  static std::vector<uint32_t> SizesFor(const std::array<int64_t, kSetCount>& counts);
  void FollowNode();
  absl::Status Settle(const nft::ApplyResult& result, const Marker& attempted);
  void Undo(Draft& draft);

  nft::Kernel& kernel_;
  ReconcilerOptions options_;
  Store store_;
  Applied applied_;
  Numbers numbers_;
  AffinityTimers timers_;
  AffinityMemory memory_;
  std::vector<IpAddress> interfaces_;
  std::array<std::vector<uint32_t>, 2> sizes_;  // Of the sized sets, as created.
  bool recreate_ = true;
  bool in_place_ = false;      // Our sets are there, for the next recreation.
  size_t timers_created_ = 0;  // For so many timeouts the tables have chains.
  NodeFacts node_;
  bool node_changed_ = true;
  uint64_t node_version_ = 0;
};

}  // namespace svcmap::proxy
