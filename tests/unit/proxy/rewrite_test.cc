#include "proxy/diff/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/rows.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy::test {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::SourceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using TestRow = svcmap::testing::Row;

IpAddress Addr(const char* text) { return *IpAddress::Parse(text); }

FoundElements Found(const std::vector<TestRow>& rows) {
  FoundElements found;
  for (const TestRow& row : rows) found.Add(row.set, {row.Read()});
  return found;
}

nft::Transaction Desired(const std::vector<TestRow>& rows) {
  nft::Transaction transaction;
  for (const TestRow& row : rows) transaction.Add(row);
  return transaction;
}

class RewriteTest : public ::testing::Test {
 protected:
  Lines Changes(const std::vector<TestRow>& found, const std::vector<TestRow>& desired) {
    return Operations(Found(found).ChangesTo(Desired(desired), replaced_));
  }
  std::vector<nft::SetRef> replaced_;
};

TEST_F(RewriteTest, WhatIsRightIsNotTouched) {
  const TestRow same = EndpointRow(1, 0, Addr("10.0.0.1"), 80);
  EXPECT_THAT(Changes({same, EndpointRow(1, 1, Addr("10.0.0.2"), 80),
                       EndpointRow(7, 0, Addr("10.0.0.3"), 80)},
                      {same, EndpointRow(1, 1, Addr("10.0.0.9"), 80)}),
              ::testing::UnorderedElementsAre("- endpoints 0x7 . 0", "- endpoints 0x1 . 1",
                                              "+ endpoints 0x1 . 1 : 10.0.0.9 . 80"));
  EXPECT_THAT(replaced_, IsEmpty());
}

TEST_F(RewriteTest, AnotherCommentIsWritten) {
  TestRow found = EndpointRow(1, 0, Addr("10.0.0.1"), 80);
  TestRow desired = found;
  desired.comment = "shop/web";
  EXPECT_EQ(Changes({found}, {desired}).size(), 2u);
}

// The bounds of ranges cannot be deleted one by one if another process added bounds.
TEST_F(RewriteTest, ASetOfRangesIsKeptOrReplaced) {
  const std::vector<TestRow> ranges = {RangeStart(Address(Family::kIpv4, 0x100)),
                                       RangeEnd(Address(Family::kIpv4, 0x200))};
  EXPECT_THAT(Changes(ranges, ranges), IsEmpty());
  EXPECT_THAT(replaced_, IsEmpty());
  std::vector<TestRow> more = ranges;
  more.push_back(RangeStart(Address(Family::kIpv4, 0x300)));
  EXPECT_EQ(Changes(more, ranges).size(), 2u) << "only additions";
  EXPECT_THAT(replaced_, ElementsAre(ranges[0].set));
}

TEST_F(RewriteTest, S116ManyDeletedSourceRangesReplaceTheSet) {
  constexpr uint32_t kRanges = 257;
  static_assert(!RemovesManySourceRows(kRanges - 2, kRanges));
  static_assert(RemovesManySourceRows(kRanges, kRanges));
  std::vector<TestRow> ranges;
  for (uint32_t i = 0; i < kRanges; ++i) {
    ranges.push_back(SourceRow(Family::kIpv6, i, 0x100, 0x1ff));
  }
  EXPECT_EQ(Changes(ranges, {ranges[0], ranges[1]}).size(), kRanges - 2);
  EXPECT_THAT(replaced_, IsEmpty());
  EXPECT_THAT(Changes(ranges, {}), IsEmpty());
  EXPECT_THAT(replaced_, ElementsAre(nft::SetRef{Family::kIpv6, kFirewallSources}));
}

TEST(FoundElementsTest, GroupsAreThoseOfEndpoints) {
  const auto groups =
      Found({EndpointRow(9, 0, Addr("10.0.0.1"), 80), EndpointRow(0x10203, 5, Addr("10.0.0.1"), 80),
             EndpointRow(9, 1, Addr("fd00::1"), 80)})
          .Groups();
  EXPECT_THAT(groups, ElementsAre(Pair(Number{NumberPool::kGroups, Family::kIpv4, 0},
                                       ElementsAre(9u, 0x10203u))));
}

}  // namespace
}  // namespace svcmap::proxy::test
