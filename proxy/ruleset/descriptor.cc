#include "proxy/ruleset/descriptor.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace svcmap::proxy {
namespace {

std::array<uint32_t, kMaxPickClass + 1> MakeCapacities() {
  std::array<uint32_t, kMaxPickClass + 1> capacities = {};
  const double growth = std::pow(static_cast<double>(kMaxEndpoints) / kMaxExactClass,
                                 1.0 / (kMaxPickClass - kMaxExactClass));
  for (unsigned i = 1; i <= kMaxPickClass; ++i) {
    capacities[i] = i <= kMaxExactClass
                        ? i
                        : static_cast<uint32_t>(
                              std::ceil(kMaxExactClass * std::pow(growth, i - kMaxExactClass)));
  }
  capacities[kMaxPickClass] = kMaxEndpoints;  // Whatever the rounding did.
  return capacities;
}

const std::array<uint32_t, kMaxPickClass + 1>& Capacities() {
  static const auto capacities = MakeCapacities();
  return capacities;
}

}  // namespace

uint32_t PickCapacity(unsigned pick_class) { return Capacities()[pick_class]; }

unsigned PickClassFor(uint32_t endpoints) {
  const auto& capacities = Capacities();
  const auto found = std::lower_bound(capacities.begin() + 1, capacities.end(), endpoints);
  return static_cast<unsigned>(found - capacities.begin());
}

IpAddress Descriptor(Family family, DispatchKind kind, unsigned pick_class, uint32_t group) {
  std::array<uint8_t, 16> bytes = {};
  const size_t size = family == Family::kIpv4 ? 4 : 16;
  for (size_t i = 0; i < 4; ++i) bytes[size - 1 - i] = static_cast<uint8_t>(group >> (8 * i));
  bytes[0] = DescriptorByte(kind, pick_class);
  return *IpAddress::FromBytes({bytes.data(), size});
}

IpPrefix DescriptorPrefix(Family family, DispatchKind kind) {
  return IpPrefix(Descriptor(family, kind, 0, 0), 2);
}

}  // namespace svcmap::proxy
