// The UDP flows tracked by the kernel. Flows are listed and deleted one by one. proxy/conntrack
// decides which flows to delete.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/types/family.h"
#include "nft/types/ip_address.h"

namespace svcmap::nft {

struct FlowEnd {
  IpAddress address;
  uint16_t port = 0;

  friend auto operator<=>(const FlowEnd&, const FlowEnd&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const FlowEnd& end) {
    return H::combine(std::move(state), end.address, end.port);
  }
};

// One direction of a flow.
struct FlowTuple {
  FlowEnd source;
  FlowEnd destination;
  uint16_t zone = 0;

  friend bool operator==(const FlowTuple&, const FlowTuple&) = default;
};

struct UdpFlow {
  FlowTuple original;  // The direction of the first packet.
  FlowTuple reply;     // The direction of the replies. The source is the endpoint that replies.
  uint32_t id = 0;     // The kernel's id of this entry, in wire format.

  Family family() const { return original.source.address.family(); }

  friend bool operator==(const UdpFlow&, const UdpFlow&) = default;
};

class FlowTable {
 public:
  virtual ~FlowTable() = default;

  struct Listing {
    uint64_t entries = 0;  // Number of entries sent by the kernel, of all protocols.
    // False if changes kept interrupting the listing, so that some flows may be missing.
    bool complete = true;
  };
  // Calls `on_flow` for each UDP flow of these families, for some flows possibly twice. Stores no
  // flows. `on_flow` may block and may delete flows. If it returns false, the listing ends with
  // kCancelled.
  virtual absl::StatusOr<Listing> ForEachUdp(
      std::span<const Family> families, const std::function<bool(const UdpFlow&)>& on_flow) = 0;

  struct Deletion {
    size_t deleted = 0;
    size_t gone = 0;  // Number of flows that no longer existed in exactly this form.
    // The first error other than "not found". The failed flows are not included in either counter.
    absl::Status status;
  };
  // Deletes exactly these flows. A new flow with the same addresses but another translation is not
  // deleted.
  virtual Deletion Delete(std::span<const UdpFlow> flows) = 0;
};

}  // namespace svcmap::nft
