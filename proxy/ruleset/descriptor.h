// The map `service-ips` maps the address, protocol and port of each Service port to a descriptor.
// While a packet is in the nat chains, its destination address contains the descriptor
// (docs/decisions/0001 and 0002).
//
//                          byte 0             IPv4 bytes 1-3, IPv6 bytes 13-15
//   without affinity       [kind|pick class]  [group: 24 bits                  ]
//   with session affinity  [3   |pick class]  [kind|local|timer][group: 16 bits]
//
// Pick class N has exactly N slots up to kMaxExactClass. Larger classes are only partly filled.
// Classes above kMaxPickClass are hash tables (docs/decisions/0015). Packets with class 0 are
// dropped. The group identifies one endpoint set in the map `endpoints`, or with session affinity
// in the map `affinity-slots`. In IPv6, bytes 10-11 keep the checksum of the packet, and with
// session affinity, bytes 2-3 are the complement of bytes 0-1. All other bytes are zero.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "nft/types/ip_address.h"

namespace svcmap::proxy {

// Actions before an endpoint is picked.
enum class DispatchKind : uint8_t {
  kInternal = 0,  // Pick an endpoint (clusterIP).
  kExternal = 1,  // Mark for masquerade, then pick (externalIP, LoadBalancer IP, nodePort).
  // Like kExternal, but with traffic policy Local: external clients use the local endpoint set.
  kExternalLocal = 2,
  kSticky = 3,  // Session affinity: the actual kind is in another byte. Valid only in byte 0.
};

// How a slot is selected for a new connection.
enum class PickBy : uint8_t {
  kRandom = 0,
  kClient = 1,         // By a hash of the source address.
  kClientAndPort = 2,  // By a hash of the source address and port.
};

inline constexpr unsigned kMaxPickClass = 37;
inline constexpr unsigned kMaxExactClass = 16;
// Sizes of the tables for picks by hash. Prime numbers, as the Maglev algorithm requires.
inline constexpr std::array<uint32_t, 3> kHashTableSizes = {251, 1021, 4093};
inline constexpr uint32_t kMaxHashedEndpoints = kHashTableSizes.back();
inline constexpr uint32_t kHashSeed = 0x73766d70;
inline constexpr uint32_t kMaxEndpoints = 65535;  // Limit per Service port and family.
inline constexpr uint32_t kMaxGroup = (uint32_t{1} << 24) - 1;  // Group numbers are 1 to kMaxGroup.
inline constexpr uint32_t kMaxStickyGroup = 65535;
inline constexpr unsigned kMaxTimers = 32;

struct Descriptor {
  struct Sticky {
    uint8_t timer = 0;   // Index of the affinity timeout in the table: 0 to kMaxTimers-1.
    bool local = false;  // True if the group is a local endpoint set.
  };

  DispatchKind kind = DispatchKind::kInternal;
  uint32_t endpoints = 0;  // Number of slots in the group. If 0, packets are dropped.
  uint32_t group = 0;
  PickBy pick_by = PickBy::kRandom;  // If not kRandom, `endpoints` is 0 or in kHashTableSizes.
  std::optional<Sticky> sticky;

  // Returns the descriptor that replaces `address`.
  IpAddress For(const IpAddress& address) const;
};

// The parts of a descriptor that a later run needs to find the elements of the Service port.
struct DescriptorParts {
  DispatchKind kind = DispatchKind::kInternal;  // Never kSticky.
  uint32_t group = 0;
  uint32_t capacity = 0;  // Maximum number of slots in the group.
  std::optional<Descriptor::Sticky> sticky;
};

// Parses a descriptor that Descriptor::For() returned.
DescriptorParts ParseDescriptor(const IpAddress& descriptor);

// Returns the number of slots in a class. The number increases with the class and is kMaxEndpoints
// in the last class.
uint32_t PickCapacity(unsigned pick_class);

// Returns the smallest class with at least `endpoints` (0 to kMaxEndpoints) slots.
unsigned PickClassFor(uint32_t endpoints);

// Returns the class for a hash table with `slots` slots, which must be in kHashTableSizes.
constexpr unsigned HashClass(PickBy pick_by, uint32_t slots) {
  unsigned size = 0;
  while (kHashTableSizes[size] != slots) ++size;
  return kMaxPickClass + 1 + (pick_by == PickBy::kClient ? 0 : kHashTableSizes.size()) + size;
}

constexpr uint8_t DescriptorByte(DispatchKind kind, unsigned pick_class) {
  return static_cast<uint8_t>(static_cast<unsigned>(kind) << 6 | pick_class);
}

// Returns the descriptor byte before the group number, with session affinity.
constexpr uint8_t StickyByte(DispatchKind kind, const Descriptor::Sticky& sticky) {
  return static_cast<uint8_t>(static_cast<unsigned>(kind) << 6 | (sticky.local ? 32 : 0) |
                              sticky.timer);
}
inline constexpr uint8_t kStickyKindMask = 0xc0;

// Returns an address that contains only the two given bytes, for the masks and values in rules.
IpAddress StickyPattern(Family family, uint8_t first_byte, uint8_t sticky_byte);

// Returns the prefix that contains all descriptors of a kind, such as 0.0.0.0/2 for kInternal.
// Rules use this prefix to match the kind.
IpPrefix DescriptorPrefix(Family family, DispatchKind kind);

// A choice replaces the destination address after an endpoint was selected for a client. A choice
// consists of the Service port's number and the endpoint's number within the port. The port number
// is limited so that the first byte of a choice is smaller than the first byte of every sticky
// descriptor.
inline constexpr uint32_t kMaxStickyPort = 0xbfff;
inline constexpr uint32_t kMaxStickyEndpoint = 65535;
constexpr uint32_t Choice(uint32_t port, uint32_t endpoint) { return port << 16 | endpoint; }

}  // namespace svcmap::proxy
