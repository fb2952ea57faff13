// The fields that keys and data of our maps are made of, and how each lies in a netlink attribute
// and in a kernel register: in a concatenation every field starts on a 4-byte boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace svcmap::nft {

enum class Field : uint8_t {
  kIpv4Addr,     // 4 bytes, network order
  kIpv6Addr,     // 16 bytes, network order
  kInetProto,    // 1 byte, IANA number
  kInetService,  // 2 bytes, network order
  kMark,         // 4 bytes, host order
  kRaw8,         // 1 byte of a packet header
  kRaw16,        // 2 bytes of a packet header ("@nh,144,16"), network order
  kRaw24,        // 3 bytes
  kRaw32,        // 4 bytes
  kRaw64,        // 8 bytes
  kRaw96,        // 12 bytes
  kSlot,         // 4 bytes, host order, as numgen writes them
};

size_t FieldSize(Field field);        // Without padding.
size_t PaddedFieldSize(Field field);  // As it lies in a concatenation.

// nft's number and name for the data type, as `nft list` needs them (libnftables
// datatype.h, 1.0.6).
uint32_t FieldTypeId(Field field);
std::string FieldTypeName(Field field);

// Bytes of a whole key or data: a single field as it is, several each padded to 4 bytes.
size_t FieldsSize(std::span<const Field> fields);

// Prints `bytes` in nft syntax, "10.96.0.1 . tcp . 80".
std::string FieldsToText(std::span<const Field> fields, std::span<const uint8_t> bytes);

// The number that up to four bytes in network order are.
uint32_t ReadBigEndian(std::span<const uint8_t> bytes);

// Builds keys and data; the caller adds the fields in the order the set declares them.
class FieldBytes {
 public:
  static constexpr size_t kMaxSize = 40;  // Two IPv6 addresses, protocol and port.

  FieldBytes& Append(std::span<const uint8_t> bytes);  // Pads to the next 4-byte boundary first.
  FieldBytes& AppendU8(uint8_t value);
  FieldBytes& AppendU16Be(uint16_t value);
  FieldBytes& AppendU24Be(uint32_t value);
  FieldBytes& AppendU32Be(uint32_t value);
  FieldBytes& AppendU32Host(uint32_t value);
  FieldBytes& PadToWord();  // A concatenation ends on a word, too.

  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

 private:
  uint8_t bytes_[kMaxSize] = {};
  uint8_t size_ = 0;
};

}  // namespace svcmap::nft
