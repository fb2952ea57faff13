// Addresses and blocks of the reference model, parsed with inet_pton. Does not use the types in
// nft/, so that an error in these types does not also affect the model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace svcmap::testing {

struct TextAddress {
  bool v6 = false;
  // Bytes of the address. An IPv4 address uses the first four bytes.
  std::array<uint8_t, 16> bytes = {};

  // Parses an address. Leading zeros of IPv4 octets are permitted, and octets are decimal (S-5).
  // Returns nullopt if `text` is not an address.
  static std::optional<TextAddress> Parse(const std::string& text);
  std::string ToString() const;
  bool IsLoopback() const;

  friend auto operator<=>(const TextAddress&, const TextAddress&) = default;
};

struct TextPrefix {
  TextAddress address;
  int length = 0;

  // Parses text such as "10.0.0.0/8". Host bits are ignored, and the length may have leading zeros
  // (S-5).
  static std::optional<TextPrefix> Parse(const std::string& text);
  bool Contains(const TextAddress& address) const;
};

}  // namespace svcmap::testing
