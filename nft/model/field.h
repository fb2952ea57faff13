// The field types of map keys and data, and their layout in netlink attributes and kernel
// registers. In a concatenation, each field starts on a 4-byte boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace svcmap::nft {

enum class Field : uint8_t {
  kIpv4Addr,     // 4 bytes, network byte order
  kIpv6Addr,     // 16 bytes, network byte order
  kInetProto,    // 1 byte, IANA number
  kInetService,  // 2 bytes, network byte order
  kMark,         // 4 bytes, host byte order
  kRaw8,         // 1 byte of a packet header
  kRaw16,        // 2 bytes of a packet header ("@nh,144,16"), network byte order
  kRaw24,        // 3 bytes
  kRaw32,        // 4 bytes
  kRaw64,        // 8 bytes
  kRaw96,        // 12 bytes
  kSlot,         // 4 bytes, host byte order, as written by numgen
};

size_t FieldSize(Field field);        // Size in bytes, without padding.
size_t PaddedFieldSize(Field field);  // Size in bytes within a concatenation.

// Returns the number of the data type in nft (libnftables datatype.h, 1.0.6), for `nft list`.
uint32_t FieldTypeId(Field field);

// Size in bytes of a complete key or data value. A single field is not padded. In a concatenation,
// each field is padded to 4 bytes.
size_t FieldsSize(std::span<const Field> fields);

// Formats `bytes` in nft syntax, such as "10.96.0.1 . tcp . 80".
std::string FieldsToText(std::span<const Field> fields, std::span<const uint8_t> bytes);

// Decodes an unsigned integer of up to four bytes in network byte order.
uint32_t ReadBigEndian(std::span<const uint8_t> bytes);

// Builds keys and data values. The caller appends the fields in the order of the set's declaration.
class FieldBytes {
 public:
  static constexpr size_t kMaxSize = 40;  // Two IPv6 addresses, a protocol and a port.

  // Pads to the next 4-byte boundary, and then appends `bytes`.
  FieldBytes& Append(std::span<const uint8_t> bytes);
  FieldBytes& AppendU8(uint8_t value) { return AppendBigEndian(value, 1); }
  FieldBytes& AppendU16Be(uint16_t value) { return AppendBigEndian(value, 2); }
  FieldBytes& AppendU24Be(uint32_t value) { return AppendBigEndian(value, 3); }
  FieldBytes& AppendU32Be(uint32_t value) { return AppendBigEndian(value, 4); }
  FieldBytes& AppendU32Host(uint32_t value);
  FieldBytes& PadToWord();  // Pads the last field of a concatenation to 4 bytes. Call last.

  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

 private:
  FieldBytes& AppendBigEndian(uint32_t value, size_t size);

  uint8_t bytes_[kMaxSize] = {};
  uint8_t size_ = 0;
};

}  // namespace svcmap::nft
