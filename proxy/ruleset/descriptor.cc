#include "proxy/ruleset/descriptor.h"

#include <algorithm>
#include <array>

namespace svcmap::proxy {
namespace {

// Number of slots by class.
constexpr std::array<uint32_t, kMaxPickClass + 1> kCapacities = {
    0,   1,    2,    3,    4,    5,    6,    7,     8,     9,     10,    11,           12,
    13,  14,   15,   16,   24,   36,   53,   79,    116,   173,   256,   381,          566,
    841, 1249, 1855, 2757, 4096, 6087, 9045, 13441, 19973, 29679, 44102, kMaxEndpoints};

constexpr unsigned kMaxClasses = 64;  // A descriptor has six bits for the class.
constexpr size_t kNeutralWord = 10;   // Byte offset in an IPv6 descriptor.

// Returns the one's complement sum of all 16-bit words, folded to 16 bits.
uint32_t FoldedSum(std::span<const uint8_t> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += bytes[i] << 8 | bytes[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

}  // namespace

uint32_t PickCapacity(unsigned pick_class) { return kCapacities[pick_class]; }

unsigned PickClassFor(uint32_t endpoints) {
  const auto* found = std::lower_bound(kCapacities.begin(), kCapacities.end(), endpoints);
  return static_cast<unsigned>(found - kCapacities.begin());
}

IpAddress Descriptor::For(const IpAddress& address) const {
  std::array<uint8_t, 16> bytes = {};
  const size_t size = address.size();
  const uint32_t low = sticky ? uint32_t{StickyByte(kind, *sticky)} << 16 | group : group;
  for (size_t i = 0; i < 3; ++i) bytes[size - 1 - i] = static_cast<uint8_t>(low >> (8 * i));
  const bool hashed = pick_by != PickBy::kRandom && !sticky && endpoints > 0;
  bytes[0] = DescriptorByte(sticky ? DispatchKind::kSticky : kind,
                            hashed ? HashClass(pick_by, endpoints) : PickClassFor(endpoints));
  if (address.family() == Family::kIpv6) {
    // A choice overwrites bytes 0-7. Both have the sum 0, so that no checksum changes.
    if (sticky) {
      bytes[2] = static_cast<uint8_t>(~bytes[0]);
      bytes[3] = 0xff;
    }
    // In one's complement arithmetic, subtraction is addition of the complement.
    const uint32_t word = FoldedSum(address.bytes()) + (0xffff - FoldedSum(bytes));
    const uint32_t folded = (word & 0xffff) + (word >> 16);
    bytes[kNeutralWord] = static_cast<uint8_t>(folded >> 8);
    bytes[kNeutralWord + 1] = static_cast<uint8_t>(folded);
  }
  return *IpAddress::FromBytes({bytes.data(), size});
}

DescriptorParts ParseDescriptor(const IpAddress& descriptor) {
  const std::span<const uint8_t> bytes = descriptor.bytes();
  const std::span<const uint8_t> low = bytes.last(3);
  const auto kind_of = [](uint8_t byte) { return static_cast<DispatchKind>(byte >> 6); };
  DescriptorParts parts{.kind = kind_of(bytes[0]), .sticky = {}};
  const unsigned pick_class = bytes[0] & (kMaxClasses - 1);
  parts.capacity = pick_class <= kMaxPickClass
                       ? PickCapacity(pick_class)
                       : kHashTableSizes[(pick_class - kMaxPickClass - 1) % kHashTableSizes.size()];
  parts.group = uint32_t{low[1]} << 8 | low[2];
  if (parts.kind == DispatchKind::kSticky) {
    parts.kind = kind_of(low[0]);
    parts.sticky = {.timer = static_cast<uint8_t>(low[0] & (kMaxTimers - 1)),
                    .local = (low[0] & 32) != 0};
  } else {
    parts.group |= uint32_t{low[0]} << 16;
  }
  return parts;
}

IpAddress StickyPattern(Family family, uint8_t first_byte, uint8_t sticky_byte) {
  std::array<uint8_t, 16> bytes = {first_byte};
  const size_t size = family == Family::kIpv4 ? 4 : 16;
  bytes[size - 3] = sticky_byte;
  return *IpAddress::FromBytes({bytes.data(), size});
}

IpPrefix DescriptorPrefix(Family family, DispatchKind kind) {
  return IpPrefix(StickyPattern(family, DescriptorByte(kind, 0), 0), 2);
}

}  // namespace svcmap::proxy
