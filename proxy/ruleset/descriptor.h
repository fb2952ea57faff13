// The service descriptor: what a service port's address maps to, and what travels through the nat
// chain in the destination address (docs/decisions/0001).
//
//            byte 0          IPv4 bytes 1-3, IPv6 bytes 12-15
//       [kind|pick class]    [group index]
//
// The pick class says how to draw a slot: classes 1..16 draw from exactly that many, the others
// from the next of a series of capacities growing by about 1.49; a draw that hits no endpoint is
// repeated, so the pick stays uniform. The group is the key of one endpoint set in the endpoints
// map.
//
// IPv6 bytes 10-11 make the one's complement sum of the descriptor equal to that of the address it
// replaces (as in RFC 6296), so that no checksum changes: nf_tables adjusts the running checksum of
// a received packet wrongly when an IPv6 address is written (seen on kernel 6.18: datagrams to the
// node's own sockets were dropped). Therefore a descriptor belongs to one address. All other bytes
// are zero.
#pragma once

#include <cstdint>

#include "nft/types/ip_address.h"

namespace svcmap::proxy {

// What happens before the pick. Two values of the two-bit field are free for traffic policies and
// session affinity.
enum class DispatchKind : uint8_t {
  kPlain = 0,     // pick
  kExternal = 1,  // mark for masquerade, then pick (externalIP, LoadBalancer IP, nodePort)
};

inline constexpr unsigned kMaxPickClass = 37;
inline constexpr unsigned kMaxExactClass = 16;
inline constexpr uint32_t kMaxEndpoints = 65535;  // Of one service port in one family.
inline constexpr uint32_t kMaxGroup = (uint32_t{1} << 24) - 1;  // Groups are 1..kMaxGroup.

// The number of slots a class draws from: ascending, kMaxEndpoints for the last one.
uint32_t PickCapacity(unsigned pick_class);

// The smallest class that holds `endpoints` (1..kMaxEndpoints).
unsigned PickClassFor(uint32_t endpoints);

constexpr uint8_t DescriptorByte(DispatchKind kind, unsigned pick_class) {
  return static_cast<uint8_t>(static_cast<unsigned>(kind) << 6 | pick_class);
}

// The descriptor that may replace `address`.
IpAddress Descriptor(const IpAddress& address, DispatchKind kind, unsigned pick_class,
                     uint32_t group);

// All descriptors of a kind as a prefix, for the rules: 0.0.0.0/2 for kPlain.
IpPrefix DescriptorPrefix(Family family, DispatchKind kind);

}  // namespace svcmap::proxy
