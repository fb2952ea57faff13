#include "tests/differential/text_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

namespace svcmap::testing {
namespace {

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() < 6 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

// Removes leading zeros, for example converts "010.0.00.1" to "10.0.0.1". Returns any other text
// unchanged.
std::string WithoutLeadingZeros(const std::string& text) {
  std::string plain;
  std::string octet;
  for (const char c : text + ".") {
    if (c != '.') {
      octet += c;
      continue;
    }
    if (!IsNumber(octet)) return text;
    plain += std::to_string(std::stoi(octet)) + ".";
    octet.clear();
  }
  plain.pop_back();
  return plain;
}

}  // namespace

std::optional<TextAddress> TextAddress::Parse(const std::string& text) {
  TextAddress address;
  address.v6 = text.find(':') != std::string::npos;
  const std::string plain = address.v6 ? text : WithoutLeadingZeros(text);
  if (inet_pton(address.v6 ? AF_INET6 : AF_INET, plain.c_str(), address.bytes.data()) != 1) {
    return std::nullopt;
  }
  return address;
}

std::string TextAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), text, sizeof(text));
  return text;
}

bool TextAddress::IsLoopback() const { return v6 ? ToString() == "::1" : bytes[0] == 127; }

std::optional<TextPrefix> TextPrefix::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || !IsNumber(text.substr(slash + 1))) return std::nullopt;
  const auto address = TextAddress::Parse(text.substr(0, slash));
  const int length = std::stoi(text.substr(slash + 1));
  if (!address || length > (address->v6 ? 128 : 32)) return std::nullopt;
  return TextPrefix{*address, length};
}

bool TextPrefix::Contains(const TextAddress& other) const {
  if (address.v6 != other.v6) return false;
  for (int bit = 0; bit < length; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((address.bytes[byte] & mask) != (other.bytes[byte] & mask)) return false;
  }
  return true;
}

}  // namespace svcmap::testing
