// IP addresses and prefixes as plain values. Parses text and prints canonical text. The parser
// never resolves host names.
#pragma once

#include <endian.h>
#include <netinet/in.h>

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nft/types/family.h"

namespace svcmap {

// An IPv4 or IPv6 address in network byte order. Unused bytes of an IPv4 address are zero.
class IpAddress {
 public:
  IpAddress() = default;

  static IpAddress V4(const in_addr& address);
  static IpAddress V6(const in6_addr& address);

  // Returns 0.0.0.0 or ::.
  static IpAddress Unspecified(Family family);

  // Returns nullopt if `bytes` does not contain 4 or 16 bytes. The bytes are in network byte order.
  static std::optional<IpAddress> FromBytes(std::span<const uint8_t> bytes);

  // Parses "10.0.0.1" or "fd00::1". As in Kubernetes (S-5), IPv4 octets may have leading zeros but
  // are always decimal: "172.30.0.041" is 172.30.0.41. Rejects zones ("fe80::1%eth0"), IPv4-mapped
  // IPv6 addresses and surrounding whitespace.
  static std::optional<IpAddress> Parse(std::string_view text);

  Family family() const { return family_; }
  size_t size() const { return family_ == Family::kIpv4 ? 4 : 16; }
  std::span<const uint8_t> bytes() const { return {bytes_.data(), size()}; }

  bool IsLoopback() const;     // 127.0.0.0/8 or ::1
  bool IsUnspecified() const;  // 0.0.0.0 or ::
  bool IsMulticast() const;    // 224.0.0.0/4 or ff00::/8
  bool IsLinkLocal() const;    // 169.254.0.0/16 or fe80::/10

  // Returns canonical text: dotted decimal for IPv4, RFC 5952 for IPv6.
  std::string ToString() const;
  std::string WithPort(uint16_t port) const;  // "10.96.0.1:80", "[fd00::1]:80"

  // By family, then by bytes. Two words are compared, because there can be millions of addresses.
  friend bool operator==(const IpAddress& a, const IpAddress& b) {
    return a.family_ == b.family_ && a.Word(0) == b.Word(0) && a.Word(1) == b.Word(1);
  }
  friend std::strong_ordering operator<=>(const IpAddress& a, const IpAddress& b) {
    if (a.family_ != b.family_) return a.family_ <=> b.family_;
    if (a.Word(0) != b.Word(0)) return be64toh(a.Word(0)) <=> be64toh(b.Word(0));
    return be64toh(a.Word(1)) <=> be64toh(b.Word(1));
  }
  template <typename H>
  friend H AbslHashValue(H state, const IpAddress& address) {
    return H::combine(std::move(state), address.family_, address.Word(0), address.Word(1));
  }

 private:
  uint64_t Word(size_t i) const {
    uint64_t word;
    std::memcpy(&word, bytes_.data() + i * sizeof(word), sizeof(word));
    return word;
  }

  Family family_ = Family::kIpv4;
  std::array<uint8_t, 16> bytes_ = {};
};

// An IP prefix (CIDR). Host bits are always zero.
class IpPrefix {
 public:
  IpPrefix() = default;
  IpPrefix(const IpAddress& address, uint8_t length);  // Clears the host bits.

  // Parses "10.0.0.0/8". As in IpAddress::Parse, leading zeros are allowed in octets and in the
  // length ("203.0.113.000/025").
  static std::optional<IpPrefix> Parse(std::string_view text);

  const IpAddress& address() const { return address_; }
  uint8_t length() const { return length_; }
  Family family() const { return address_.family(); }

  bool Contains(const IpAddress& address) const;
  IpAddress Last() const;  // Returns the highest address of the prefix.
  std::string ToString() const;

  friend auto operator<=>(const IpPrefix&, const IpPrefix&) = default;

 private:
  IpAddress address_;
  uint8_t length_ = 0;
};

}  // namespace svcmap
