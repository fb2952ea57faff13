// Tests of the nft text format that need no kernel. tests/contract/*listing_test.cc compare the
// text with nft's output.
#include "nft/text/nft_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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

TEST(TransactionTextTest, NothingPrintsNothing) {
  EXPECT_EQ(TransactionText(Tables(), Transaction()), "");
}

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

TEST(TransactionTextTest, AStartAndTheEndBehindItAreOneRange) {
  Transaction transaction;
  transaction.Delete(RangeStart(Ip("10.96.0.0")));
  transaction.Delete(RangeEnd(Ip("10.97.0.0")));
  transaction.Add(RangeStart(Ip("10.0.0.1")).Comment("odd"));
  transaction.Add(RangeEnd(Ip("10.0.0.9")));
  transaction.Add(RangeStart(Ip("fd00:96::")));
  transaction.Add(RangeEnd(Ip("fd00:96::1:0")));
  EXPECT_EQ(TransactionText(Tables(), transaction),
            "delete element ip svcmap service-cidrs { 10.96.0.0/16 }\n"
            "add element ip svcmap service-cidrs { 10.0.0.1-10.0.0.8 comment \"odd\" }\n"
            "add element ip6 svcmap service-cidrs { fd00:96::/112 }\n");
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

TEST(TransactionTextTest, ARangeOfSeveralFieldsIsALineOfItsOwn) {
  Transaction transaction;
  transaction.Delete(SourceRow(Ip("203.0.113.1"), 80, Ip("10.0.0.0"), Ip("10.255.255.255")));
  transaction.Add(SourceRow(Ip("203.0.113.1"), 443, Ip("10.0.0.1"), Ip("10.0.0.8")).Comment("a:"));
  transaction.Add(SourceRow(Ip("2001:db8::1"), 80, Ip("fd00::1"), Ip("fd00::1")));
  EXPECT_EQ(TransactionText(Tables(), transaction),
            "delete element ip svcmap firewall-sources { 203.0.113.1 . tcp . 80 . 10.0.0.0/8 }\n"
            "add element ip svcmap firewall-sources { 203.0.113.1 . tcp . 443 . "
            "10.0.0.1-10.0.0.8 comment \"a:\" }\n"
            "add element ip6 svcmap firewall-sources { 2001:db8::1 . tcp . 80 . fd00::1 }\n");
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

TEST(TableTextTest, SetsAreDeclaredAsNftDeclaresThem) {
  const std::string text = TableText(Tables()[0]);
  for (const char* declaration : {"\tset firewall-sources {\n"
                                  "\t\ttype ipv4_addr . inet_proto . inet_service . ipv4_addr\n"
                                  "\t\tflags interval\n\t}\n",
                                  "\tmap affinity {\n"
                                  "\t\ttypeof ip saddr . @nh,128,16 : ip daddr\n"
                                  "\t\tsize 131072\n\t\tflags dynamic,timeout\n\t}\n"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(declaration));
  }
}

TEST(RangesTextTest, EachFieldIsARangeByItself) {
  const Row row = SourceRow(Ip("0.0.0.0"), 80, Ip("0.0.0.0"), Ip("255.255.255.255"));
  const std::vector<Field>& fields = Spec(row.set).key;
  EXPECT_EQ(RangesText(fields, row.key.bytes(), row.key_end.bytes()),
            "0.0.0.0 . tcp . 80 . 0.0.0.0/0");
  const Row ports = SourceRow(Ip("10.0.0.0"), 90, Ip("10.0.0.9"), Ip("10.0.0.9"));
  EXPECT_EQ(RangesText(fields, row.key.bytes(), ports.key_end.bytes()),
            "0.0.0.0-10.0.0.0 . tcp . 80-90 . 0.0.0.0-10.0.0.9");
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

TEST(RangeTextTest, PortsPrintAsARange) {
  const uint8_t start[] = {0, 80}, end[] = {0, 91};
  EXPECT_EQ(RangeText(std::vector{Field::kInetService}, start, end), "80-90");
}

TEST(RangeTextTest, KeysOfAForeignLengthPrintTheirLength) {
  const uint8_t start[] = {1, 2, 3};
  EXPECT_EQ(RangeText(std::vector{Field::kIpv4Addr}, start, {}), "<3 bytes>-<3 bytes>");
}

TEST(ElementsTextTest, ElementsPrintInTheOrderOfTheirKeys) {
  std::vector<Element> elements;
  for (const uint32_t slot : {256, 1, 2, 0}) {
    elements.push_back(EndpointRow(7, slot, Ip("10.244.0.1"), 80).Read());
  }
  elements.push_back(EndpointRow(6, 9, Ip("10.244.0.1"), 80).Comment("first").Read());
  EXPECT_EQ(ElementsText(Spec({Family::kIpv4, proxy::kEndpoints}), elements),
            "\t\telements = { 0x6 . 9 comment \"first\" : 10.244.0.1 . 80,\n"
            "\t\t\t     0x7 . 0 : 10.244.0.1 . 80,\n"
            "\t\t\t     0x7 . 1 : 10.244.0.1 . 80,\n"
            "\t\t\t     0x7 . 2 : 10.244.0.1 . 80,\n"
            "\t\t\t     0x7 . 256 : 10.244.0.1 . 80 }\n");
}

TEST(ElementsTextTest, RangesAreFoundInAnyOrder) {
  const std::vector<Element> elements = {
      RangeEnd(Ip("10.98.0.0")).Read(),   RangeStart(Ip("10.97.0.0")).Read(),
      RangeEnd(Ip("10.97.0.0")).Read(),   RangeStart(Ip("10.96.0.0")).Read(),
      RangeStart(Ip("255.0.0.0")).Read(), RangeEnd(Ip("0.0.0.0")).Read()};
  EXPECT_EQ(ElementsText(Spec({Family::kIpv4, proxy::kServiceCidrs}), elements),
            "\t\telements = { 10.96.0.0/16,\n"
            "\t\t\t     10.97.0.0/16,\n"
            "\t\t\t     255.0.0.0/8 }\n");
}

TEST(ElementsTextTest, RangesOfSeveralFieldsPrintInTheOrderOfTheirFirstKeys) {
  const std::vector<Element> elements = {
      SourceRow(Ip("203.0.113.1"), 80, Ip("172.16.0.0"), Ip("172.31.255.255")).Read(),
      SourceRow(Ip("203.0.113.1"), 80, Ip("10.0.0.7"), Ip("10.0.0.7")).Comment("one").Read()};
  EXPECT_EQ(ElementsText(Spec({Family::kIpv4, proxy::kFirewallSources}), elements),
            "\t\telements = { 203.0.113.1 . tcp . 80 . 10.0.0.7 comment \"one\",\n"
            "\t\t\t     203.0.113.1 . tcp . 80 . 172.16.0.0/12 }\n");
}

TEST(ElementsTextTest, NoElementsPrintNothing) {
  EXPECT_EQ(ElementsText(Spec({Family::kIpv4, proxy::kClusterIps}), {}), "");
}

TEST(ElementsTextTest, WhatTheKernelShouldNotHoldIsPrintedAllTheSame) {
  EXPECT_EQ(ElementsText(Spec({Family::kIpv4, proxy::kServiceIps}),
                         {Element{{1, 2}, {3}, "a\nb", false}, Element{}}),
            "\t\telements = { <0 bytes>,\n"
            "\t\t\t     <2 bytes> comment \"a?b\" : <1 bytes> }\n");
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
