#include "nft/types/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace svcmap {
namespace {

constexpr size_t kMaxDigits = 10;  // Of a decimal number, with leading zeros.

// Parses a decimal number of at most `max`. Accepts leading zeros, but no sign and no whitespace.
std::optional<unsigned> ParseDecimal(std::string_view text, unsigned max) {
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 10);
  if (error != std::errc() || end != text.data() + text.size() || value > max) return std::nullopt;
  return value;
}

// Accepts leading zeros, with at most kMaxDigits digits in an octet.
std::optional<IpAddress> ParseIpv4(std::string_view text) {
  in_addr address = {};
  auto* bytes = reinterpret_cast<uint8_t*>(&address);
  int octet = 0;
  unsigned value = 0;
  size_t digits = 0;
  for (const char c : text) {
    if (c == '.') {
      if (digits == 0 || octet == 3) return std::nullopt;
      bytes[octet++] = static_cast<uint8_t>(value);
      value = 0;
      digits = 0;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > kMaxDigits) return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
    if (value > 255) return std::nullopt;
  }
  if (digits == 0 || octet != 3) return std::nullopt;
  bytes[octet] = static_cast<uint8_t>(value);
  return IpAddress::V4(address);
}

std::optional<IpAddress> ParseIpv6(std::string_view text) {
  char buffer[INET6_ADDRSTRLEN];
  // Rejects NUL bytes, because inet_pton stops at a NUL byte and accepts the text before it.
  if (text.size() >= sizeof(buffer) || text.find('\0') != std::string_view::npos)
    return std::nullopt;
  *std::copy(text.begin(), text.end(), buffer) = '\0';
  in6_addr address;
  if (inet_pton(AF_INET6, buffer, &address) != 1) return std::nullopt;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return std::nullopt;
  return IpAddress::V6(address);
}

// Sets or clears all bits of the address after the first `length` bits.
IpAddress WithHostBits(const IpAddress& address, uint8_t length, bool set) {
  std::array<uint8_t, 16> bytes = {};
  const std::span<const uint8_t> source = address.bytes();
  for (size_t i = 0; i < source.size(); ++i) {
    const int kept = std::clamp(length - static_cast<int>(i) * 8, 0, 8);
    bytes[i] =
        static_cast<uint8_t>(set ? source[i] | (0xff >> kept) : source[i] & (0xff00 >> kept));
  }
  return *IpAddress::FromBytes({bytes.data(), source.size()});
}

}  // namespace

IpAddress IpAddress::V4(const in_addr& address) {
  IpAddress result;
  std::copy_n(reinterpret_cast<const uint8_t*>(&address), 4, result.bytes_.begin());
  return result;
}

IpAddress IpAddress::V6(const in6_addr& address) {
  IpAddress result;
  result.family_ = Family::kIpv6;
  std::copy_n(reinterpret_cast<const uint8_t*>(&address), 16, result.bytes_.begin());
  return result;
}

IpAddress IpAddress::Unspecified(Family family) {
  IpAddress result;
  result.family_ = family;
  return result;
}

std::optional<IpAddress> IpAddress::FromBytes(std::span<const uint8_t> bytes) {
  if (bytes.size() != 4 && bytes.size() != 16) return std::nullopt;
  IpAddress result;
  result.family_ = bytes.size() == 4 ? Family::kIpv4 : Family::kIpv6;
  std::copy(bytes.begin(), bytes.end(), result.bytes_.begin());
  return result;
}

std::optional<IpAddress> IpAddress::Parse(std::string_view text) {
  return text.find(':') == std::string_view::npos ? ParseIpv4(text) : ParseIpv6(text);
}

bool IpAddress::IsLoopback() const {
  if (family_ == Family::kIpv4) return bytes_[0] == 127;
  return std::all_of(bytes_.begin(), bytes_.end() - 1, [](uint8_t b) { return b == 0; }) &&
         bytes_[15] == 1;
}

bool IpAddress::IsUnspecified() const {
  return std::all_of(bytes_.begin(), bytes_.end(), [](uint8_t b) { return b == 0; });
}

bool IpAddress::IsMulticast() const {
  return family_ == Family::kIpv4 ? (bytes_[0] & 0xf0) == 0xe0 : bytes_[0] == 0xff;
}

bool IpAddress::IsLinkLocal() const {
  if (family_ == Family::kIpv4) return bytes_[0] == 169 && bytes_[1] == 254;
  return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

std::string IpAddress::ToString() const {
  char buffer[INET6_ADDRSTRLEN];
  inet_ntop(family_ == Family::kIpv4 ? AF_INET : AF_INET6, bytes_.data(), buffer, sizeof(buffer));
  return buffer;
}

std::string IpAddress::WithPort(uint16_t port) const {
  const bool v4 = family_ == Family::kIpv4;
  return (v4 ? ToString() + ":" : "[" + ToString() + "]:") + std::to_string(port);
}

IpPrefix::IpPrefix(const IpAddress& address, uint8_t length)
    : address_(WithHostBits(address, length, false)), length_(length) {}

std::optional<IpPrefix> IpPrefix::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::optional<IpAddress> address = IpAddress::Parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  const std::optional<unsigned> length =
      ParseDecimal(text.substr(slash + 1), static_cast<unsigned>(address->size() * 8));
  if (!length) return std::nullopt;
  return IpPrefix(*address, static_cast<uint8_t>(*length));
}

bool IpPrefix::Contains(const IpAddress& address) const {
  return address.family() == family() && IpPrefix(address, length_) == *this;
}

IpAddress IpPrefix::Last() const { return WithHostBits(address_, length_, true); }

std::string IpPrefix::ToString() const {
  return address_.ToString() + "/" + std::to_string(length_);
}

}  // namespace svcmap
