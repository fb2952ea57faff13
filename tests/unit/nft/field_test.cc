#include "nft/model/field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace svcmap::nft {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<uint8_t>;

Bytes BytesOf(const FieldBytes& bytes) { return {bytes.bytes().begin(), bytes.bytes().end()}; }

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

TEST(FieldTest, EveryFieldHasASizeATypeAndAName) {
  for (const Field field : kAllFields) {
    SCOPED_TRACE(static_cast<int>(field));
    EXPECT_GT(FieldSize(field), 0u);
    EXPECT_LE(FieldSize(field), 16u);
    EXPECT_GT(FieldTypeId(field), 0u);
    EXPECT_LT(FieldTypeId(field), 64u);  // Field type ids use six bits in a concatenated type.
    EXPECT_NE(FieldTypeName(field), "?");
  }
}

TEST(FieldTest, ASingleFieldIsNotPadded) {
  for (const Field field : kAllFields) {
    EXPECT_EQ(FieldsSize(std::vector{field}), FieldSize(field));
  }
}

TEST(FieldTest, EveryFieldOfAConcatenationIsPaddedToAWord) {
  EXPECT_EQ(FieldsSize(std::vector{Field::kIpv4Addr, Field::kInetProto, Field::kInetService}), 12u);
  EXPECT_EQ(FieldsSize(std::vector{Field::kInetProto, Field::kInetService}), 8u);
  EXPECT_EQ(FieldsSize(std::vector{Field::kRaw24, Field::kSlot}), 8u);
  EXPECT_EQ(FieldsSize(std::vector{Field::kIpv6Addr, Field::kIpv6Addr, Field::kInetProto,
                                   Field::kInetService}),
            FieldBytes::kMaxSize);
  EXPECT_EQ(FieldsSize({}), 0u);
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

TEST(FieldTest, AConcatenationPrintsWithDots) {
  FieldBytes key;
  key.Append(Bytes{10, 96, 0, 1}).AppendU8(6).AppendU16Be(80).PadToWord();
  EXPECT_EQ(FieldsToText(std::vector{Field::kIpv4Addr, Field::kInetProto, Field::kInetService},
                         key.bytes()),
            "10.96.0.1 . tcp . 80");
}

TEST(FieldTest, TooFewBytesPrintTheirNumber) {
  const std::vector<Field> fields = {Field::kIpv4Addr, Field::kInetProto};
  EXPECT_EQ(FieldsToText(fields, {}), "<0 bytes>");
  EXPECT_EQ(FieldsToText(fields, Bytes(7)), "<7 bytes>");
  for (const Field field : kAllFields) {
    EXPECT_EQ(FieldsToText(std::vector{field}, {}), "<0 bytes>");
  }
}

TEST(FieldBytesTest, NumbersAreInNetworkOrder) {
  EXPECT_THAT(BytesOf(FieldBytes().AppendU16Be(0x1234)), ElementsAre(0x12, 0x34));
  EXPECT_THAT(BytesOf(FieldBytes().AppendU24Be(0x123456)), ElementsAre(0x12, 0x34, 0x56));
  EXPECT_THAT(BytesOf(FieldBytes().AppendU32Be(0x12345678)), ElementsAre(0x12, 0x34, 0x56, 0x78));
}

TEST(FieldBytesTest, SlotsAndMarksAreInHostOrder) {
  EXPECT_EQ(BytesOf(FieldBytes().AppendU32Host(0x12345678)), HostOrder(0x12345678));
}

TEST(FieldBytesTest, EachFieldStartsOnAWord) {
  EXPECT_THAT(BytesOf(FieldBytes().AppendU8(6).AppendU16Be(80)), ElementsAre(6, 0, 0, 0, 0, 80));
}

TEST(FieldBytesTest, PaddingIsZeroAndHappensOnce) {
  FieldBytes bytes;
  bytes.AppendU8(6).PadToWord();
  EXPECT_THAT(BytesOf(bytes), ElementsAre(6, 0, 0, 0));
  bytes.PadToWord();
  EXPECT_EQ(bytes.bytes().size(), 4u);
  EXPECT_THAT(BytesOf(FieldBytes().PadToWord()), ElementsAre());
}

TEST(FieldBytesTest, TheLargestKeyFits) {
  FieldBytes bytes;
  bytes.Append(Bytes(16, 1)).Append(Bytes(16, 2)).AppendU8(6).AppendU16Be(80).PadToWord();
  EXPECT_EQ(bytes.bytes().size(), FieldBytes::kMaxSize);
}

}  // namespace
}  // namespace svcmap::nft
