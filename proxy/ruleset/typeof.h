// "typeof" declarations for sets whose keys have no named nft type, and the user data that nft
// 1.0.6 stores in the kernel to list such sets. The user data consists of nested type-length-value
// records with libnftables' expression numbers. A contract test compares the records with data
// written by nft.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace svcmap::proxy {

// One field of a concatenation.
struct TypeofPart {
  enum class Form : uint8_t { kField, kMeta, kRaw, kRandom };
  // Header that contains the field of kRaw, with libnftables' number.
  enum class Base : uint8_t { kNetwork = 2, kTransport = 3 };
  Form form = Form::kField;
  const char* name = nullptr;  // kField: "ip daddr", kMeta: "meta l4proto"
  uint32_t header = 0;         // kField: libnftables' numbers for the header and the field.
  uint32_t field = 0;          // kMeta: number of the key.
  Base base = Base::kNetwork;
  uint32_t offset_bits = 0;  // kRaw: offset in the header.
  uint32_t size_bits = 0;
  uint32_t modulus = 0;  // kRandom

  static constexpr TypeofPart Raw(uint32_t offset_bits, uint32_t size_bits,
                                  Base base = Base::kNetwork) {
    return {.form = Form::kRaw, .base = base, .offset_bits = offset_bits, .size_bits = size_bits};
  }
  static TypeofPart Random(uint32_t modulus) { return {.form = Form::kRandom, .modulus = modulus}; }
};

inline constexpr TypeofPart kIpSource{.name = "ip saddr", .header = 12, .field = 11};
inline constexpr TypeofPart kIpDestination{.name = "ip daddr", .header = 12, .field = 12};
inline constexpr TypeofPart kIp6Destination{.name = "ip6 daddr", .header = 13, .field = 9};
inline constexpr TypeofPart kTransportDestination{.name = "th dport", .header = 11, .field = 2};

inline constexpr TypeofPart kProtocol{
    .form = TypeofPart::Form::kMeta, .name = "meta l4proto", .field = 16};
inline constexpr TypeofPart kDestinationPortBlock =
    TypeofPart::Raw(16, 8, TypeofPart::Base::kTransport);

// Returns a declaration such as
// "typeof @nh,136,24 . numgen random mod 65536 : ip daddr . th dport".
// Without `data`, the declaration is for a set.
std::string TypeofText(const std::vector<TypeofPart>& key, const std::vector<TypeofPart>& data);
std::vector<uint8_t> TypeofUserdata(const std::vector<TypeofPart>& key,
                                    const std::vector<TypeofPart>& data);

}  // namespace svcmap::proxy
