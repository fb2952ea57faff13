// The two address families. Each family has its own table and its own rows. The two tables do not
// depend on each other.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace svcmap {

enum class Family : uint8_t { kIpv4 = 0, kIpv6 = 1 };

inline constexpr std::array<Family, 2> kFamilies = {Family::kIpv4, Family::kIpv6};

constexpr size_t Index(Family family) { return static_cast<size_t>(family); }

// Returns "IPv4" or "IPv6", as used in the Kubernetes fields ipFamilies and addressType.
constexpr std::string_view FamilyName(Family family) {
  return family == Family::kIpv4 ? "IPv4" : "IPv6";
}

}  // namespace svcmap
