#include "nft/model/field.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace svcmap::nft {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr Field kAllFields[] = {Field::kIpv4Addr,    Field::kIpv6Addr, Field::kInetProto,
                                Field::kInetService, Field::kMark,     Field::kRaw8,
                                Field::kRaw24,       Field::kRaw32,    Field::kSlot};

// Returns the bytes of a value in host byte order, which slots and marks use. The tests support
// both byte orders.
Bytes HostOrder(uint32_t value) {
  const auto byte = [&](int i) { return static_cast<uint8_t>(value >> (8 * i)); };
  return std::endian::native == std::endian::little ? Bytes{byte(0), byte(1), byte(2), byte(3)}
                                                    : Bytes{byte(3), byte(2), byte(1), byte(0)};
}

TEST(FieldTest, ValuesPrintAsNftWritesThem) {
  struct Case {
    Field field;
    Bytes bytes;
    const char* text;
  };
  const std::vector<Case> cases = {
      {Field::kIpv4Addr, {10, 96, 0, 1}, "10.96.0.1"},
      {Field::kIpv6Addr, {0xfd, 0, 0, 0x96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "fd00:96::1"},
      {Field::kInetProto, {6}, "tcp"},
      {Field::kInetProto, {17}, "udp"},
      {Field::kInetProto, {132}, "sctp"},
      {Field::kInetProto, {1}, "icmp"},
      {Field::kInetProto, {58}, "ipv6-icmp"},
      {Field::kInetProto, {200}, "200"},
      {Field::kInetService, {0x1f, 0x90}, "8080"},
      {Field::kInetService, {0xff, 0xff}, "65535"},
      {Field::kMark, HostOrder(0x4000), "0x00004000"},
      {Field::kRaw8, {0x41}, "0x41"},
      {Field::kRaw24, {0, 1, 2}, "0x102"},
      {Field::kRaw32, {0, 1, 2, 3}, "0x10203"},
      {Field::kSlot, HostOrder(65534), "65534"},
  };
  for (const Case& c : cases) EXPECT_EQ(FieldsToText(std::vector{c.field}, c.bytes), c.text);
}

TEST(FieldTest, TooFewBytesPrintTheirNumber) {
  const std::vector<Field> fields = {Field::kIpv4Addr, Field::kInetProto};
  EXPECT_EQ(FieldsToText(fields, {}), "<0 bytes>");
  EXPECT_EQ(FieldsToText(fields, Bytes(7)), "<7 bytes>");
  for (const Field field : kAllFields) {
    EXPECT_EQ(FieldsToText(std::vector{field}, {}), "<0 bytes>");
  }
}

}  // namespace
}  // namespace svcmap::nft
