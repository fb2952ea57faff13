// Addresses and blocks of the reference model, parsed with inet_pton. Independent of the types in
// nft/, so that their errors are not repeated.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_TEXT_ADDRESS_H_
#define SVCMAP_TESTS_DIFFERENTIAL_TEXT_ADDRESS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace svcmap::testing {

struct TextAddress {
  bool v6 = false;
  std::array<uint8_t, 16> bytes = {};  // IPv4: the first four.

  // Leading zeros of IPv4 octets are allowed and decimal (S-5). Nothing if `text` is no address.
  static std::optional<TextAddress> Parse(const std::string& text);
  std::string ToString() const;
  bool IsLoopback() const;

  friend auto operator<=>(const TextAddress&, const TextAddress&) = default;
};

struct TextPrefix {
  TextAddress address;
  int length = 0;

  // "10.0.0.0/8"; host bits are ignored, the length may have leading zeros (S-5).
  static std::optional<TextPrefix> Parse(const std::string& text);
  bool Contains(const TextAddress& address) const;
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_TEXT_ADDRESS_H_
