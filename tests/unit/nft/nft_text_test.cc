// Tests of the nft text format that need no kernel. tests/contract/*listing_test.cc compare the
// text with nft's output.
#include "nft/text/nft_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "nft/text/range_text.h"
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

// nft cannot replace sets that rules refer to, so the text contains such a replacement only as a
// comment.
TEST(TransactionTextTest, ACreationInPlaceIsACommentLine) {
  Transaction transaction;
  transaction.CreateTable({.family = Family::kIpv6, .existing = svcmap::testing::DataSets()});
  EXPECT_EQ(TransactionText(Tables(), transaction), "# in place: add table ip6 svcmap\n");
}

TEST(TransactionTextTest, ARepairNamesItsChainsAndWhatItRemoves) {
  Transaction transaction;
  transaction.RepairChains(
      {Family::kIpv6, nullptr, {"services", "pick-3"}, {"foreign"}, {"foreign-set"}});
  EXPECT_EQ(TransactionText(Tables(), transaction),
            "# rewritten: chain ip6 svcmap services\n"
            "# rewritten: chain ip6 svcmap pick-3\n"
            "delete set ip6 svcmap foreign-set\n"
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

}  // namespace
}  // namespace svcmap::nft
