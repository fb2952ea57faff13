// Handles transactions that the kernel rejects. Decides how the next attempt differs, and excludes
// Services that the kernel rejects repeatedly. The applied rows of these Services stay in effect.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/model/kernel.h"
#include "proxy/applied/applied.h"
#include "proxy/reconcile/planner.h"
#include "proxy/reconcile/states.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

class Rejections {
 public:
  enum class Remedy : uint8_t {
    kRetry,      // The next attempt may succeed.
    kCheckRows,  // Another process may have changed the rows of the plan.
    // The next plan must rewrite the tables, or replace them if this plan was a rewrite.
    kRewrite,
  };

  // Returns the remedy for a plan that was not committed. If the kernel rejected a Service, moves
  // it out of sync_plan.dirty.
  Remedy Handle(TableState tables, SyncPlan& sync_plan, const nft::ApplyResult& result,
                const Applied& applied);
  // Treats `service` as rejected by the kernel. Call PutOff if `service` needs an element that the
  // rejected Service `holder` still has in the kernel.
  void PutOff(const DirtyService& service, const std::string& holder);
  // Call Committed even if the plan was empty. `services` are the Services of the plan.
  void Committed(const std::vector<DirtyService>& services);

  // Returns the maximum number of Services in the next plan. Handle halves this number if the
  // kernel's error names no Service, so that smaller plans isolate the rejected Service.
  size_t service_limit() const { return service_limit_; }

  bool Contains(const std::string& service) const { return rejected_.contains(service); }
  const absl::flat_hash_set<std::string>& services() const { return rejected_; }
  void MarkDirty(Store& store) const;  // Marks all rejected Services as dirty.

  // Returns whether there are findings that were not reported yet.
  bool has_findings() const { return !findings_.empty(); }
  std::vector<PlanFinding> TakeFindings() { return std::exchange(findings_, {}); }

 private:
  void Reject(const DirtyService& service, const std::string& reason);
  bool Isolate(SyncPlan& sync_plan, const nft::ApplyResult& result, const Applied& applied);

  // Number of consecutive rejections. Temporary errors do not count.
  int consecutive_ = 0;
  size_t service_limit_ = SIZE_MAX;
  absl::flat_hash_set<std::string> rejected_;
  std::vector<PlanFinding> findings_;
};

}  // namespace svcmap::proxy
