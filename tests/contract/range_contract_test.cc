// Tests of interval sets with one field, which have start and end elements.
#include <random>

#include "proxy/desired/ranges.h"
#include "proxy/diff/plan.h"
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

class RangeContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, RangeContract, EveryKernel(), KernelCaseName);

TEST_P(RangeContract, RangesReadBackAsStartsAndEnds) {
  CreateTable();
  const std::vector<Row> rows = {
      RangeStart(Address(family(), 0x100)), RangeEnd(Address(family(), 0x200)),
      RangeStart(Address(family(), 0x200)), RangeEnd(Address(family(), 0x300))};
  Add(rows);
  EXPECT_THAT(Read(proxy::kServiceCidrs),
              UnorderedElementsAre(rows[0].Read(), rows[1].Read(), rows[2].Read(), rows[3].Read()));
}

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

TEST_P(RangeContract, RangesAreDeletedByBothEnds) {
  CreateTable();
  const Row start = RangeStart(Address(family(), 0x100));
  const Row end = RangeEnd(Address(family(), 0x200));
  Add({start, end, RangeStart(Address(family(), 0x200)), RangeEnd(Address(family(), 0x300))});
  Transaction transaction;
  transaction.Delete(start);
  transaction.Delete(end);
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceCidrs),
              UnorderedElementsAre(RangeStart(Address(family(), 0x200)).Read(),
                                   RangeEnd(Address(family(), 0x300)).Read()));
}

TEST_P(RangeContract, ARangeMayBeReplacedByALargerOne) {
  CreateTable();
  Add({RangeStart(Address(family(), 0x100)), RangeEnd(Address(family(), 0x200))});
  Transaction transaction;
  transaction.Delete(RangeStart(Address(family(), 0x100)));
  transaction.Delete(RangeEnd(Address(family(), 0x200)));
  transaction.Add(RangeStart(Address(family(), 0x100)));
  transaction.Add(RangeEnd(Address(family(), 0x400)));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceCidrs),
              UnorderedElementsAre(RangeStart(Address(family(), 0x100)).Read(),
                                   RangeEnd(Address(family(), 0x400)).Read()));
}

// Ranges from bound to bound appear, disappear, grow, shrink, merge and are divided.
TEST_P(RangeContract, OnlyRangesThatDifferAreWritten) {
  CreateTable();
  std::mt19937 random(1);
  std::vector<proxy::Row> before;
  for (int change = 0; change < 200; ++change) {
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

TEST_P(RangeContract, AddingARangeAgainIsNoError) {
  CreateTable();
  const std::vector<Row> range = {RangeStart(Address(family(), 0x100)),
                                  RangeEnd(Address(family(), 0x200))};
  Add(range);
  Add(range);
  EXPECT_EQ(Read(proxy::kServiceCidrs).size(), 2u);
}

TEST_P(RangeContract, OverlappingRangesAreRejected) {
  CreateTable();
  Add({RangeStart(Address(family(), 0x100)), RangeEnd(Address(family(), 0x200))});
  struct Case {
    const char* name;
    uint32_t start, end;
    size_t failed;
  };
  for (const Case& c : {Case{"inside", 0x120, 0x140, 0}, Case{"across the end", 0x180, 0x280, 0},
                        Case{"across the start", 0x80, 0x180, 1}, Case{"around", 0x80, 0x280, 1}}) {
    SCOPED_TRACE(c.name);
    Transaction transaction;
    transaction.Add(RangeStart(Address(family(), c.start)));
    transaction.Add(RangeEnd(Address(family(), c.end)));
    ExpectRejected(transaction, absl::StatusCode::kAlreadyExists, c.failed);
  }
}

TEST_P(RangeContract, AnEndIsNoElementOfAPlainSet) {
  CreateTable();
  Row row = ClusterIpRow(family(), 1);
  row.interval_end = true;
  Transaction transaction;
  transaction.Add(row);
  ExpectRejected(transaction, absl::StatusCode::kInvalidArgument, 0);
}

}  // namespace
}  // namespace svcmap::nft
