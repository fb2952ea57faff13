// Decides which UDP flows are stale. A flow is stale if it was sent to a Service but none of the
// Service's endpoints replies (S-240). A flow is also stale if its source is the Service's own
// address. StaleFlows does not delete flows. The cost per flow does not depend on the number of
// Services.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

class StaleFlows {
 public:
  enum class Place : uint8_t {
    // A Service currently uses the address. Each flow to the address must use one of the Service's
    // endpoints.
    kCurrent,
    // A Service used the address earlier, but no Service uses the address now. Flows without
    // translation are ignored.
    kFormer,
  };
  // Adds a destination. `endpoints` are the destination's valid endpoints in ascending order and
  // must outlive this object. If several Services used the destination, call Add once per Service.
  // A flow to an endpoint of any added Service is kept. Returns the destination's number, which is
  // the argument of Kept().
  size_t Add(const nft::FlowEnd& destination, Place place,
             const std::vector<EndpointAddress>& endpoints);

  bool IsStale(const nft::Flow& flow);

  // Returns true if IsStale kept a flow because of this destination. `number` is the result of
  // Add().
  bool Kept(size_t number) const { return targets_[number].kept; }

  bool HasFamily(Family family) const { return families_[Index(family)]; }

 private:
  bool IsTurnedAround(const nft::Flow& flow) const;

  struct Target {
    Place place;
    const std::vector<EndpointAddress>* endpoints;
    bool kept = false;
  };
  std::vector<Target> targets_;
  absl::flat_hash_map<nft::FlowEnd, absl::InlinedVector<uint32_t, 1>> at_;
  bool families_[2] = {};
};

}  // namespace svcmap::proxy
