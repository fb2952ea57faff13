// "typeof" declarations of sets whose keys no nft type names, and what nft 1.0.6 stores with such a
// set in the kernel to be able to list it: nested type-length-value records with expression numbers
// of its own (libnftables; a contract test compares them with what nft writes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace svcmap::proxy {

// One field of a concatenation.
struct TypeofPart {
  enum class Form : uint8_t { kField, kRaw, kRandom };
  Form form = Form::kField;
  const char* name = nullptr;  // kField: "ip daddr"
  uint32_t header = 0;         // kField: nft's numbers of header and field.
  uint32_t field = 0;
  uint32_t offset_bits = 0;  // kRaw, in the network header.
  uint32_t size_bits = 0;
  uint32_t modulus = 0;  // kRandom

  static TypeofPart Raw(uint32_t offset_bits, uint32_t size_bits) {
    return {.form = Form::kRaw, .offset_bits = offset_bits, .size_bits = size_bits};
  }
  static TypeofPart Random(uint32_t modulus) { return {.form = Form::kRandom, .modulus = modulus}; }
};

inline constexpr TypeofPart kIpSource{.name = "ip saddr", .header = 12, .field = 11};
inline constexpr TypeofPart kIpDestination{.name = "ip daddr", .header = 12, .field = 12};
inline constexpr TypeofPart kIp6Destination{.name = "ip6 daddr", .header = 13, .field = 9};
inline constexpr TypeofPart kTransportDestination{.name = "th dport", .header = 11, .field = 2};

// "typeof @nh,136,24 . numgen random mod 65536 : ip daddr . th dport"
std::string TypeofText(const std::vector<TypeofPart>& key, const std::vector<TypeofPart>& data);
std::vector<uint8_t> TypeofUserdata(const std::vector<TypeofPart>& key,
                                    const std::vector<TypeofPart>& data);

}  // namespace svcmap::proxy
