// Which UDP flows are stale: sent to a Service, and not answered by one of its endpoints (S-240),
// or coming from its address as if it were a client. Pure. The cost per flow does not grow with the
// number of Services.
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
    kCurrent,  // A Service is reached there: all flows to it must have one of its endpoints.
    kFormer,   // One was, and now nobody is: what it has not translated is no business of ours.
  };
  // `endpoints` are those that may answer there, ascending; they must outlive this. Where several
  // have been reached at a place, each of them adds it, and a flow stays if it has an endpoint of
  // any. Returns a number for Kept().
  size_t Add(const nft::FlowEnd& destination, Place place,
             const std::vector<EndpointAddress>& endpoints);

  bool IsStale(const nft::UdpFlow& flow);

  // Some flow that was asked about stays because of what was added with this number.
  bool Kept(size_t number) const { return targets_[number].kept; }

  bool HasFamily(Family family) const { return families_[Index(family)]; }

 private:
  bool IsTurnedAround(const nft::UdpFlow& flow) const;

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
