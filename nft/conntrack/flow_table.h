// The UDP flows that the kernel tracks: looked at one by one, and deleted one by one. What is
// deleted is decided elsewhere (proxy/conntrack).
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

// A flow in one direction.
struct FlowTuple {
  FlowEnd source;
  FlowEnd destination;
  uint16_t zone = 0;

  friend bool operator==(const FlowTuple&, const FlowTuple&) = default;
};

struct UdpFlow {
  FlowTuple original;  // As its first packet came in.
  FlowTuple reply;     // As answers come in: the source is who really answers.
  uint32_t id = 0;     // The kernel's for this entry, as it sent it.

  Family family() const { return original.source.address.family(); }

  friend bool operator==(const UdpFlow&, const UdpFlow&) = default;
};

class FlowTable {
 public:
  virtual ~FlowTable() = default;

  struct Listing {
    uint64_t entries = 0;  // That the kernel sent, of whatever protocol.
    bool complete = true;  // False: changes disturbed it time and again; some were not seen.
  };
  // Calls `on_flow` for each UDP flow of these families, perhaps for some of them twice, and keeps
  // none. `on_flow` may take its time and delete flows meanwhile; false ends the listing:
  // kCancelled.
  virtual absl::StatusOr<Listing> ForEachUdp(
      std::span<const Family> families, const std::function<bool(const UdpFlow&)>& on_flow) = 0;

  struct Deletion {
    size_t deleted = 0;
    size_t gone = 0;      // Were there no more, in this very form.
    absl::Status status;  // Not OK: the first other error; the flows that it met are neither.
  };
  // Deletes these and no others: a flow that has come back with other ends is another one.
  virtual Deletion Delete(std::span<const UdpFlow> flows) = 0;
};

}  // namespace svcmap::nft
