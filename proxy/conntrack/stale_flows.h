// Decides which UDP flows are stale. A flow is stale if it was sent to a Service but none of the
// Service's endpoints replies (S-240). A flow is also stale if its source is the Service's own
// address. StaleFlows does not delete flows. The cost per flow does not depend on the number of
// Services.
#pragma once

#include <compare>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// An address with a port or a port range.
struct FlowDestination {
  // Implicit, because most destinations have a single port.
  FlowDestination(const nft::FlowEnd& end, uint16_t last_port = 0)  // NOLINT
      : first(end), last(last_port) {}

  nft::FlowEnd first;
  uint16_t last;  // Last port of a range, or 0 for a single port.

  bool is_range() const { return last != 0; }
  friend auto operator<=>(const FlowDestination&, const FlowDestination&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const FlowDestination& destination) {
    return H::combine(std::move(state), destination.first, destination.last);
  }
};

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
  // Adds a destination. In a port range, an endpoint replies from the port of the destination, and
  // the ports in `endpoints` are ignored. A single port that is a current destination is no part of
  // a range. `endpoints` are the destination's valid endpoints in ascending order and
  // must outlive this object. If several Services used the destination, call Add once per Service.
  // A flow to an endpoint of any added Service is kept. Returns the destination's number, which is
  // the argument of Kept().
  size_t Add(const FlowDestination& destination, Place place,
             const std::vector<EndpointAddress>& endpoints);

  // Excludes a single port from the ranges that contain it, because a Service that is not in this
  // round uses the port.
  void Exclude(const nft::FlowEnd& destination) { excluded_.insert(destination); }

  bool IsStale(const nft::Flow& flow);

  // Returns true if IsStale kept a flow because of this destination. `number` is the result of
  // Add().
  bool Kept(size_t number) const { return targets_[number].kept; }

  bool HasFamily(Family family) const { return families_[Index(family)]; }

 private:
  bool IsTurnedAround(const nft::Flow& flow) const;

  using Numbers = absl::InlinedVector<uint32_t, 2>;

  // Returns the numbers of the targets with this destination.
  Numbers TargetsOf(const nft::FlowEnd& destination) const;
  bool AnyCurrent(const Numbers& targets) const;
  static bool IsEndpoint(const nft::FlowEnd& answers, const nft::FlowEnd& destination, bool range,
                         const std::vector<EndpointAddress>& endpoints);

  struct Range {
    uint16_t first;
    uint16_t last;
    uint32_t target;
  };
  struct Target {
    Place place;
    bool range;
    const std::vector<EndpointAddress>* endpoints;
    bool kept = false;
  };
  std::vector<Target> targets_;
  absl::flat_hash_map<nft::FlowEnd, Numbers> at_;
  absl::flat_hash_map<IpAddress, std::vector<Range>> ranges_;
  absl::flat_hash_set<nft::FlowEnd> excluded_;
  bool families_[2] = {};
};

}  // namespace svcmap::proxy
