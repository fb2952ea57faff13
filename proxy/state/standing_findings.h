// The parts of the desired state that currently have no effect, with reasons. Each plan replaces
// the findings of the Services that it contains, even if another object caused the plan. For
// example, the finding of a Service without its clusterIP is removed when the Service receives the
// clusterIP of a deleted Service. The findings of the node are replaced separately.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "proxy/state/dirty_services.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// A finding of a plan.
struct PlanFinding {
  // Number of the first change of the plan that concerns the Service or the node, or 0.
  uint64_t sequence = 0;
  std::string service;  // Key of the Service whose plan has the finding. Empty for the node.
  Finding finding;      // Can be about an object of the Service, such as an EndpointSlice.
  bool known = false;   // True if the previous plan of the Service or node had the same finding.
};

class StandingFindings {
 public:
  static constexpr size_t kMaxServices = 1000;  // Findings of further Services are dropped.
  static constexpr size_t kMaxFindings = 100;   // Further findings of a Service are dropped.
  // Sorted by Service. The vector is immutable. Replace() creates a new vector.
  using List = std::shared_ptr<const std::vector<Finding>>;

  // Replaces the findings of the Services in `planned` and of all Services that `findings` names,
  // and sets PlanFinding::known. `planned`: the Services of a plan, or an empty key for the node.
  // `findings`: the findings of the plan, and of Services that the kernel has rejected.
  void Replace(const std::vector<DirtyService>& planned, std::vector<PlanFinding>& findings);

  const List& list() const { return list_; }
  // Returns the findings of a Service. With an empty key, returns the findings of the node.
  const std::vector<Finding>& Of(const std::string& service) const;

 private:
  absl::btree_map<std::string, std::vector<Finding>> by_service_;
  List list_ = std::make_shared<std::vector<Finding>>();
};

}  // namespace svcmap::proxy
