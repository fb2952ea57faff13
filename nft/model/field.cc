#include "nft/model/field.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdio>
#include <cstring>

#include "nft/types/ip_address.h"

namespace svcmap::nft {
namespace {

constexpr size_t WordAligned(size_t size) { return (size + 3) & ~size_t{3}; }

uint32_t HostOrder(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string Hex(uint32_t value, const char* format) {
  char text[16];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Returns the bytes as a hexadecimal number without leading zeros.
std::string RawText(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += Hex(byte, "%02x");
  const size_t digits = std::min(text.find_first_not_of('0'), text.size() - 1);
  return "0x" + text.substr(digits);
}

std::string ProtocolText(uint8_t protocol) {
  switch (protocol) {
    case 1:
      return "icmp";
    case 6:
      return "tcp";
    case 17:
      return "udp";
    case 58:
      return "ipv6-icmp";
    case 132:
      return "sctp";
    default:
      return std::to_string(protocol);
  }
}

std::string FieldToText(Field field, std::span<const uint8_t> bytes) {
  switch (field) {
    case Field::kIpv4Addr:
    case Field::kIpv6Addr:
      return IpAddress::FromBytes(bytes)->ToString();
    case Field::kInetProto:
      return ProtocolText(bytes[0]);
    case Field::kInetService:
      return std::to_string(ReadBigEndian(bytes));
    case Field::kMark:
      return Hex(HostOrder(bytes), "0x%08x");
    case Field::kRaw8:
    case Field::kRaw16:
    case Field::kRaw24:
    case Field::kRaw32:
    case Field::kRaw64:
    case Field::kRaw96:
      return RawText(bytes);
    case Field::kSlot:
      return std::to_string(HostOrder(bytes));
  }
  return "?";
}

struct FieldInfo {
  size_t size;
  uint32_t type_id;
};

FieldInfo InfoOf(Field field) {
  constexpr uint32_t kInteger = 4;
  constexpr FieldInfo kInfos[] = {// By Field.
                                  {4, 7},        {16, 8},       {1, 12},        {2, 13},
                                  {4, 19},       {1, kInteger}, {2, kInteger},  {3, kInteger},
                                  {4, kInteger}, {8, kInteger}, {12, kInteger}, {4, kInteger}};
  return kInfos[static_cast<size_t>(field)];
}

}  // namespace

size_t FieldSize(Field field) { return InfoOf(field).size; }
size_t PaddedFieldSize(Field field) { return WordAligned(FieldSize(field)); }
uint32_t FieldTypeId(Field field) { return InfoOf(field).type_id; }

uint32_t ReadBigEndian(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (const uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

size_t FieldsSize(std::span<const Field> fields) {
  if (fields.size() == 1) return FieldSize(fields[0]);
  size_t size = 0;
  for (const Field field : fields) size += PaddedFieldSize(field);
  return size;
}

std::string FieldsToText(std::span<const Field> fields, std::span<const uint8_t> bytes) {
  if (bytes.size() < FieldsSize(fields)) return "<" + std::to_string(bytes.size()) + " bytes>";
  std::string text;
  size_t offset = 0;
  for (const Field field : fields) {
    if (!text.empty()) text += " . ";
    text += FieldToText(field, bytes.subspan(offset, FieldSize(field)));
    offset += PaddedFieldSize(field);
  }
  return text;
}

FieldBytes& FieldBytes::Append(std::span<const uint8_t> bytes) {
  PadToWord();
  assert(size_ + bytes.size() <= kMaxSize);
  std::copy(bytes.begin(), bytes.end(), bytes_ + size_);
  size_ = static_cast<uint8_t>(size_ + bytes.size());
  return *this;
}

FieldBytes& FieldBytes::AppendBigEndian(uint32_t value, size_t size) {
  uint8_t bytes[4];
  for (size_t i = size; i-- > 0; value >>= 8) bytes[i] = static_cast<uint8_t>(value);
  return Append({bytes, size});
}

FieldBytes& FieldBytes::AppendU32Host(uint32_t value) {
  uint8_t bytes[4];
  std::memcpy(bytes, &value, sizeof(bytes));
  return Append(bytes);
}

FieldBytes& FieldBytes::PadToWord() {
  size_ = static_cast<uint8_t>(WordAligned(size_));
  return *this;
}

}  // namespace svcmap::nft
