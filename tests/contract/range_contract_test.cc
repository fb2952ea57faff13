// Tests of interval sets with one field, which have start and end elements.
#include <random>

#include "proxy/desired/ranges.h"
#include "proxy/diff/plan.h"
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::UnorderedElementsAreArray;

class RangeContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, RangeContract, EveryKernel(), KernelCaseName);

TEST_P(RangeContract, AnAddressFindsTheStartOfItsRange) {
  CreateTable();
  const Row start = RangeStart(Address(family(), 0x100));
  Add({start, RangeEnd(Address(family(), 0x200))});
  EXPECT_THAT(ReadOne(start), Optional(start.Read()));
  EXPECT_THAT(ReadOne(RangeStart(Address(family(), 0x1ff))), Optional(start.Read()));
  EXPECT_EQ(ReadOne(RangeStart(Address(family(), 0xff))), std::nullopt);
  EXPECT_EQ(ReadOne(RangeStart(Address(family(), 0x200))), std::nullopt);
}

TEST_P(RangeContract, AStartAloneReachesToTheHighestAddress) {
  CreateTable();
  const IpAddress zero = family() == Family::kIpv4 ? testing::Ip("0.0.0.0") : testing::Ip("::");
  Add({RangeStart(zero)});
  EXPECT_THAT(Read(proxy::kServiceCidrs), ElementsAre(RangeStart(zero).Read()));
  EXPECT_THAT(ReadOne(RangeStart(Address(family(), 5))), Optional(RangeStart(zero).Read()));
}

// Ranges from bound to bound appear, disappear, grow, shrink, merge and are divided.
TEST_P(RangeContract, OnlyRangesThatDifferAreWritten) {
  CreateTable();
  std::mt19937 random(1);
  std::vector<proxy::Row> before;
  for (int change = 0; change < 60; ++change) {
    SCOPED_TRACE(change);
    std::vector<proxy::AddressRange> ranges;
    for (uint32_t bound = 1; bound < 8; ++bound) {
      if (random() % 2 == 0) continue;
      const uint32_t end = bound + 1 + random() % (8 - bound);
      ranges.push_back({Address(family(), bound << 8), Address(family(), (end << 8) - 1)});
      bound = end;
    }
    if (random() % 4 == 0) {
      ranges.push_back({Address(family(), 9 << 8), IpPrefix(Address(family(), 0), 0).Last()});
    }
    const std::vector<proxy::Row> after = proxy::RangeRows(proxy::kServiceCidrs, ranges);
    const proxy::SharedCounts none;
    proxy::Plan plan(none);
    plan.AddRows(before, after);
    plan.Finish();
    if (!plan.transaction().empty()) Commit(plan.transaction());
    std::vector<Element> expected;
    for (const proxy::Row& row : after) {
      const auto key = row.key.bytes();
      expected.push_back({.key = {key.begin(), key.end()}, .interval_end = row.interval_end});
    }
    ASSERT_THAT(Read(proxy::kServiceCidrs), UnorderedElementsAreArray(expected));
    before = after;
  }
}

}  // namespace
}  // namespace svcmap::nft
