// The UDP, TCP and SCTP flows tracked by the kernel. FlowTable lists and deletes individual flows.
// Code in proxy/conntrack selects the flows to delete.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
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

enum class TransportProtocol : uint8_t {
  kTcp = 6,
  kUdp = 17,
  kSctp = 132
};  // IANA protocol numbers.

// The flows of one protocol in one family.
struct FlowKind {
  TransportProtocol protocol;
  Family family;

  friend bool operator==(const FlowKind&, const FlowKind&) = default;
};
inline constexpr size_t kFlowKinds = 6;

// Returns an index below kFlowKinds.
constexpr size_t Index(const FlowKind& kind) {
  const size_t protocol = kind.protocol == TransportProtocol::kUdp   ? 0
                          : kind.protocol == TransportProtocol::kTcp ? 1
                                                                     : 2;
  return 2 * protocol + Index(kind.family);
}

struct Flow {
  FlowTuple original;  // Direction of the connection's first packet.
  // Direction of the replies. `reply.source` is the endpoint that sends the replies.
  FlowTuple reply;
  // Kernel-assigned id of the conntrack entry, in the byte order of the message.
  uint32_t id = 0;
  TransportProtocol protocol = TransportProtocol::kUdp;
  // True if the flow began with a TCP SYN or an SCTP INIT, and no reply was seen. False for UDP.
  bool unreplied = false;

  Family family() const { return original.source.address.family(); }
  FlowKind kind() const { return {protocol, family()}; }

  friend bool operator==(const Flow&, const Flow&) = default;
};

class FlowTable {
 public:
  virtual ~FlowTable() = default;

  struct Listing {
    // Number of conntrack entries that the kernel sent, including entries of other protocols.
    uint64_t entries = 0;
    bool cut = false;  // True if the dump ended after `max_entries` entries.
    // False if flows may be missing, because a change interrupted every attempt to list the flows.
    bool complete = true;
  };
  static constexpr uint64_t kAllEntries = std::numeric_limits<uint64_t>::max();
  // Calls `on_flow` for each flow of `kinds`, without storing the flows. Skips TCP connections that
  // have ended after a reply, and SCTP associations except for unreplied ones. `on_flow` may
  // receive some flows twice. `on_flow` may block and may delete flows. If `on_flow` returns false,
  // the dump ends with kCancelled. After `max_entries` conntrack entries, the dump ends and is
  // complete.
  virtual absl::StatusOr<Listing> ForEach(std::span<const FlowKind> kinds, uint64_t max_entries,
                                          const std::function<bool(const Flow&)>& on_flow) = 0;

  struct Deletion {
    size_t deleted = 0;
    // Number of flows that had already ended or changed before the deletion.
    size_t gone = 0;
    // The first deletion error other than "not found". Neither `deleted` nor `gone` includes flows
    // whose deletion failed.
    absl::Status status;
  };
  // Deletes the listed flows. Keeps a newer flow that has the same addresses but a different
  // translation.
  virtual Deletion Delete(std::span<const Flow> flows) = 0;
};

}  // namespace svcmap::nft
