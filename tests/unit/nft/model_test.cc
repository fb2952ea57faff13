// Tests of transactions and their fields, and of their text in the format of nft, without a kernel.
// tests/contract/*listing_test.cc compare the text with the output of nft.
#include "nft/text/nft_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "nft/model/field.h"
#include "nft/model/transaction.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/rows.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::Ip;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::Row;
using ::svcmap::testing::ServiceRow;
using ::svcmap::testing::SourceRow;
using ::testing::ElementsAre;
using Bytes = std::vector<uint8_t>;

const TableSpecs& Tables() {
  static const TableSpecs tables = proxy::MakeTables({});
  return tables;
}

const SetSpec& Spec(SetRef set) { return Tables()[Index(set.family)].sets[set.set]; }

TEST(TransactionTextTest, EachOperationIsALineInOrder) {
  Transaction transaction;
  transaction.DropTable(Family::kIpv4);
  transaction.CreateTable({Family::kIpv4});
  transaction.CreateTable({Family::kIpv6});
  transaction.Delete(ServiceRow(Ip("fd00:96::1"), 80, Ip("300::1")));
  transaction.Add(ServiceRow(Ip("10.96.0.1"), 80, Ip("3.0.0.1")).Comment("ns/web:http"));
  transaction.Add(EndpointRow(0x10, 65534, Ip("10.244.1.5"), 8080));
  EXPECT_EQ(TransactionText(Tables(), transaction),
            "delete table ip svcmap\n"
            "add table ip svcmap\n"
            "add table ip6 svcmap\n"
            "delete element ip6 svcmap service-ips { fd00:96::1 . tcp . 80 }\n"
            "add element ip svcmap service-ips { 10.96.0.1 . tcp . 80 comment \"ns/web:http\" : "
            "3.0.0.1 }\n"
            "add element ip svcmap endpoints { 0x10 . 65534 : 10.244.1.5 . 8080 }\n");
}

TEST(TransactionTextTest, StartsAndEndsThatDoNotBelongTogetherStayApart) {
  Transaction transaction;
  transaction.Delete(RangeStart(Ip("10.96.0.0")));
  transaction.Add(RangeEnd(Ip("10.97.0.0")));
  transaction.Add(RangeStart(Ip("0.0.0.0")));
  EXPECT_EQ(TransactionText(Tables(), transaction),
            "delete element ip svcmap service-cidrs { 10.96.0.0-255.255.255.255 }\n"
            "# add element ip svcmap service-cidrs: end of a range before 10.97.0.0\n"
            "add element ip svcmap service-cidrs { 0.0.0.0/0 }\n");
}

TEST(TransactionTextTest, ARepairNamesItsChainsAndWhatItRemoves) {
  Transaction transaction;
  transaction.RepairChains({Family::kIpv6,
                            nullptr,
                            {"services", "pick-3"},
                            {"foreign"},
                            {"foreign-set"},
                            {"endpoints"}});
  EXPECT_EQ(TransactionText(Tables(), transaction),
            "# rewritten: chain ip6 svcmap services\n"
            "# rewritten: chain ip6 svcmap pick-3\n"
            "delete set ip6 svcmap foreign-set\n"
            "# added: set ip6 svcmap endpoints\n"
            "delete chain ip6 svcmap foreign\n");
}

TEST(RangeTextTest, RangesPrintAsNftPrintsThem) {
  struct Case {
    const char* start;
    const char* end;  // An empty string means that the range has no end.
    const char* text;
  };
  for (const Case& c :
       {Case{"10.96.0.0", "10.97.0.0", "10.96.0.0/16"}, Case{"10.96.0.1", "10.96.0.2", "10.96.0.1"},
        Case{"10.96.0.1", "10.96.0.3", "10.96.0.1-10.96.0.2"},
        Case{"10.96.0.0", "10.96.0.3", "10.96.0.0-10.96.0.2"},
        Case{"0.0.0.0", "128.0.0.0", "0.0.0.0/1"}, Case{"128.0.0.0", "", "128.0.0.0/1"},
        Case{"0.0.0.0", "", "0.0.0.0/0"}, Case{"255.255.255.255", "", "255.255.255.255"},
        Case{"128.0.0.0", "0.0.0.0", "128.0.0.0/1"},  // The key after the last address wraps to 0.
        Case{"fd00::", "fd01::", "fd00::/16"}, Case{"::", "", "::/0"},
        Case{"fd00::ffff", "fd00::1:1", "fd00::ffff-fd00::1:0"}}) {
    const IpAddress start = Ip(c.start);
    const std::vector<Field> fields = {start.family() == Family::kIpv4 ? Field::kIpv4Addr
                                                                       : Field::kIpv6Addr};
    const IpAddress end = *c.end == '\0' ? IpAddress() : Ip(c.end);
    EXPECT_EQ(
        RangeText(fields, start.bytes(), *c.end == '\0' ? std::span<const uint8_t>() : end.bytes()),
        c.text);
  }
}

TEST(ElementTextTest, AnElementIsNamedByKeyAndSet) {
  const Row row = ServiceRow(Ip("10.96.0.1"), 80, Ip("3.0.0.1"));
  EXPECT_EQ(ElementText(Spec(row.set), row), "10.96.0.1 . tcp . 80 in service-ips");
  EXPECT_EQ(ElementText(Spec({Family::kIpv4, proxy::kServiceCidrs}), RangeEnd(Ip("10.0.0.0"))),
            "10.0.0.0 (end of a range) in service-cidrs");
  const Row source = SourceRow(Ip("203.0.113.1"), 80, Ip("10.0.0.0"), Ip("10.255.255.255"));
  EXPECT_EQ(ElementText(Spec(source.set), source),
            "203.0.113.1 . tcp . 80 . 10.0.0.0/8 in firewall-sources");
}

TEST(ElementTextTest, TheFailedElementOfATransactionIsFoundByItsIndex) {
  Transaction transaction;
  transaction.Delete(ServiceRow(Ip("10.96.0.1"), 80, Ip("3.0.0.1")));
  transaction.Add(ServiceRow(Ip("fd00:96::1"), 443, Ip("300::1")));
  EXPECT_EQ(ElementText(Tables(), transaction, 1), "fd00:96::1 . tcp . 443 in service-ips");
  EXPECT_EQ(ElementText(Tables(), transaction, 2), "element 2");
}

std::vector<std::string> Comments(const Transaction& transaction) {
  std::vector<std::string> comments;
  transaction.ForEachElement(
      [&](Verb, const ElementView& element) { comments.emplace_back(element.comment); });
  return comments;
}

ElementView View(const Bytes& key, const Bytes& data = {}, std::string_view comment = {}) {
  return {.set = {Family::kIpv4, 3}, .key = key, .data = data, .comment = comment};
}

// Elements written by other processes may have comments of up to 250 bytes.
TEST(TransactionTest, AForeignCommentDoesNotHinderDeletion) {
  Transaction transaction;
  transaction.Delete(View({1}, {}, std::string(250, 'x')));
  EXPECT_THAT(Comments(transaction), ElementsAre(""));
}

TEST(TransactionTest, ATooLongCommentIsCut) {
  Transaction transaction;
  transaction.Add(View({1}, {2}, std::string(1000, 'x')));
  transaction.Add(View({3}, {4}, "y"));
  EXPECT_THAT(Comments(transaction), ElementsAre(std::string(Transaction::kMaxComment, 'x'), "y"));
}

TEST(TransactionTest, AnEndpointTakesAboutThirtyBytes) {
  Transaction transaction;
  transaction.Add(View(Bytes(8), Bytes(8), "ns/web:http"));
  EXPECT_LE(transaction.byte_count(), 32u);
}

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
