// The parts of Services that are currently not programmed, with reasons. Each plan replaces the
// findings of the Services that it contains, whatever object changed. A Service that receives a
// clusterIP because another Service was deleted has no finding from then on.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "proxy/state/objects.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

class StandingFindings {
 public:
  static constexpr size_t kMaxServices = 1000;  // Findings of further Services are dropped.
  static constexpr size_t kMaxFindings = 100;   // Further findings of a Service are dropped.
  // Sorted by Service. The vector does not change.
  using List = std::shared_ptr<const std::vector<Finding>>;

  // Replaces the findings of the Services in `planned` and of all Services that `findings` names.
  // `planned`: the Services of a plan. `findings`: the findings of the plan, and of Services that
  // the kernel has rejected, each with the sequence number of the change.
  void Replace(const std::vector<DirtyService>& planned,
               const std::vector<std::pair<uint64_t, Finding>>& findings);
  const List& list() const { return list_; }

 private:
  absl::btree_map<std::string, std::vector<Finding>> by_service_;
  List list_ = std::make_shared<std::vector<Finding>>();
};

}  // namespace svcmap::proxy
