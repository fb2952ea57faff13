// The service descriptor: what a service port's address maps to, and what travels through the nat
// chain in the destination address (docs/decisions/0001 and 0002).
//
//                          byte 0             IPv4 bytes 1-3, IPv6 bytes 13-15
//   without affinity       [kind|pick class]  [group: 24 bits                  ]
//   with session affinity  [3   |pick class]  [kind|local|timer][group: 16 bits]
//
// The pick class says how to draw a slot: classes 1..16 draw from exactly that many, the others
// from the next of a series of capacities growing by about 1.49; a draw that hits no endpoint is
// repeated, so the pick stays uniform. The group is the key of one endpoint set, in the endpoints
// map or, with affinity, in affinity-slots. Class 0 leads nowhere: the packet is dropped.
//
// IPv6 bytes 10-11 make the one's complement sum of the descriptor equal to that of the address it
// replaces (as in RFC 6296), so that no checksum changes: nf_tables adjusts the running checksum of
// a received packet wrongly when an IPv6 address is written (seen on kernel 6.18: datagrams to the
// node's own sockets were dropped). Therefore a descriptor belongs to one address. Bytes 2-9 are
// scratch space of session affinity; they and all others are zero.
#pragma once

#include <cstdint>
#include <optional>

#include "nft/types/ip_address.h"

namespace svcmap::proxy {

// What happens before the pick.
enum class DispatchKind : uint8_t {
  kInternal = 0,       // Pick (clusterIP).
  kExternal = 1,       // Mark for masquerade, then pick (externalIP, LoadBalancer IP, nodePort).
  kExternalLocal = 2,  // The same with traffic policy Local: who from outside gets the local set.
  kSticky = 3,         // With session affinity; the kind stands elsewhere. Only in byte 0.
};

inline constexpr unsigned kMaxPickClass = 37;
inline constexpr unsigned kMaxExactClass = 16;
inline constexpr uint32_t kMaxEndpoints = 65535;  // Of one service port in one family.
inline constexpr uint32_t kMaxGroup = (uint32_t{1} << 24) - 1;  // Groups are 1..kMaxGroup.
inline constexpr uint32_t kMaxStickyGroup = 65535;
inline constexpr unsigned kMaxTimers = 32;

struct Descriptor {
  struct Sticky {
    uint8_t timer = 0;   // Which of the table's affinity timeouts, 0..kMaxTimers-1.
    bool local = false;  // The group is a local set.
  };

  DispatchKind kind = DispatchKind::kInternal;
  uint32_t endpoints = 0;  // In the group; 0: drop.
  uint32_t group = 0;
  std::optional<Sticky> sticky;

  // As it may replace `address`.
  IpAddress For(const IpAddress& address) const;
};

// The number of slots a class draws from: ascending, kMaxEndpoints for the last one.
uint32_t PickCapacity(unsigned pick_class);

// The smallest class that holds `endpoints` (0..kMaxEndpoints).
unsigned PickClassFor(uint32_t endpoints);

constexpr uint8_t DescriptorByte(DispatchKind kind, unsigned pick_class) {
  return static_cast<uint8_t>(static_cast<unsigned>(kind) << 6 | pick_class);
}

// The byte in front of a sticky group.
constexpr uint8_t StickyByte(DispatchKind kind, const Descriptor::Sticky& sticky) {
  return static_cast<uint8_t>(static_cast<unsigned>(kind) << 6 | (sticky.local ? 32 : 0) |
                              sticky.timer);
}
inline constexpr uint8_t kStickyKindMask = 0xc0;

// Byte 0 and that byte in their places, for the rules: masks and what is to be found under them.
IpAddress StickyPattern(Family family, uint8_t first_byte, uint8_t sticky_byte);

// All descriptors of a kind as a prefix, for the rules: 0.0.0.0/2 for kInternal.
IpPrefix DescriptorPrefix(Family family, DispatchKind kind);

// What stands in for the destination once an endpoint was chosen for a client: the Service port's
// number and the endpoint's number in it.
inline constexpr uint32_t kMaxStickyPort = 0xbfff;  // Below every sticky descriptor's first byte.
inline constexpr uint32_t kMaxStickyEndpoint = 65535;
constexpr uint32_t Choice(uint32_t port, uint32_t endpoint) { return port << 16 | endpoint; }

}  // namespace svcmap::proxy
