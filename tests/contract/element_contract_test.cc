// Tests of accepted and rejected elements and ranges, and of reading them back.
#include <random>

#include "absl/strings/str_join.h"
#include "proxy/desired/ranges.h"
#include "proxy/diff/plan.h"
#include "tests/contract/kernel_contract.h"
#include "tests/support/not_applicable.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::NotApplicable;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::ServiceRow;
using ::svcmap::testing::SourceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::UnorderedElementsAreArray;

class ElementContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, ElementContract, EveryKernel(), KernelCaseName);

TEST_P(ElementContract, AddedElementsReadBackWithDataAndComment) {
  CreateTable();
  const Row service =
      ServiceRow(family(), 1, 7).Comment(std::string(Transaction::kMaxComment, 'x'));
  const Row endpoint = EndpointRow(0x010203, 65534, Address(family(), 9), 65535);
  const Row cluster_ip = ClusterIpRow(family(), 1).Comment("ns/web");
  Add({service, endpoint, cluster_ip});
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(service.Read()));
  EXPECT_THAT(ReadOne(service), Optional(service.Read()));
  EXPECT_THAT(Read(proxy::kEndpoints), ElementsAre(endpoint.Read()));
  EXPECT_THAT(Read(proxy::kClusterIps), ElementsAre(cluster_ip.Read()));
}

TEST_P(ElementContract, DeletionLooksAtTheKeyOnly) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7).Comment("one")});
  Commit(Changes({ServiceRow(family(), 1, 8).Comment("another")}, {}));
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(ElementContract, OrderCounts) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7)});
  Transaction add_first;
  add_first.Add(ServiceRow(family(), 1, 8));
  add_first.Delete(ServiceRow(family(), 1));
  ExpectRejected(add_first, absl::StatusCode::kAlreadyExists, 0);

  ExpectRejected(Changes({ServiceRow(family(), 2)}, {ServiceRow(family(), 2)}),
                 absl::StatusCode::kNotFound, 0);
}

TEST_P(ElementContract, AddingAgainTheSameIsNoError) {
  CreateTable();
  Add({ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Add({ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Commit(Changes({}, {ServiceRow(family(), 2), ServiceRow(family(), 2)}));
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 2u);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), 1u);
}

TEST_P(ElementContract, ElementsOfAMissingTableAreRejectedAndNoneIsNamed) {
  ExpectRejected(Changes({}, {ServiceRow(family(), 1)}), absl::StatusCode::kNotFound, std::nullopt);
  ExpectRejected(Changes({ServiceRow(family(), 1)}, {}), absl::StatusCode::kNotFound, std::nullopt);
}

TEST_P(ElementContract, OneBadElementInTheMiddleIsNamedAndNothingHappens) {
  CreateTable();
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction = Changes({ServiceRow(family(), 1)}, {});
  for (uint32_t i = 0; i < 500; ++i) {
    transaction.Add(EndpointRow(i, 0, Address(family(), i), 80));
  }
  transaction.Delete(ServiceRow(family(), 2));
  // The deletion with index 502 fails, because the element does not exist.
  transaction.Delete(ServiceRow(family(), 3));
  transaction.Delete(ServiceRow(family(), 4));  // The kernel reports the first invalid element.
  for (uint32_t i = 0; i < 500; ++i) transaction.Add(ClusterIpRow(family(), i));
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 502);
}

TEST_P(ElementContract, ABadElementIsNamedInAnyMessageOfALargeBatch) {
  constexpr uint32_t kCount = 20'000;  // A dump of this many elements has about a dozen messages.
  CreateTable();
  Add({EndpointRow(17'123, 0, Address(family(), 5), 5)});
  Transaction transaction;
  for (uint32_t i = 1; i < kCount; ++i) {
    transaction.Add(EndpointRow(i, 0, Address(family(), i), 80));
  }
  ExpectRejected(transaction, absl::StatusCode::kAlreadyExists, 17'122);
}

TEST_P(ElementContract, ReadElementsAnswersInTheOrderOfTheKeys) {
  constexpr uint32_t kCount = 5'000;
  CreateTable();
  std::vector<Row> rows;
  for (uint32_t i = 0; i < kCount; i += 2) {
    rows.push_back(ServiceRow(family(), i, i + 1).Comment("service-" + std::to_string(i)));
  }
  Add(rows);
  std::vector<FieldBytes> keys;
  for (uint32_t i = kCount; i-- > 0;) keys.push_back(ServiceRow(family(), i).key);
  ASSERT_OK_AND_ASSIGN(const auto elements, kernel_->ReadElements(Set(proxy::kServiceIps), keys));
  ASSERT_EQ(elements.size(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto& element = elements[kCount - 1 - i];
    ASSERT_EQ(element, i % 2 == 0 ? std::optional(rows[i / 2].Read()) : std::nullopt) << i;
  }
}

TEST_P(ElementContract, ReadElementsWithoutKeysTableOrElementsFindsNothing) {
  const std::vector<FieldBytes> keys = {ServiceRow(family(), 1).key, ServiceRow(family(), 2).key};
  ASSERT_OK_AND_ASSIGN(const auto no_table, kernel_->ReadElements(Set(proxy::kServiceIps), keys));
  EXPECT_THAT(no_table, ElementsAre(std::nullopt, std::nullopt));
  CreateTable();
  ASSERT_OK_AND_ASSIGN(const auto no_element, kernel_->ReadElements(Set(proxy::kServiceIps), keys));
  EXPECT_THAT(no_element, ElementsAre(std::nullopt, std::nullopt));
  ASSERT_OK_AND_ASSIGN(const auto no_key, kernel_->ReadElements(Set(proxy::kServiceIps), {}));
  EXPECT_THAT(no_key, IsEmpty());
}

TEST_P(ElementContract, ReadSetOfAMissingTableIsAnError) {
  EXPECT_EQ(kernel_->ReadSet(Set(proxy::kServiceIps)).status().code(), absl::StatusCode::kNotFound);
}

// Tests of interval sets with one field, which have start and end elements.
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
    proxy::Plan plan;
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

// Tests of interval sets with several fields, in which each element has a first and a last key.
class SeveralFieldsContract : public KernelContract {
 protected:
  // Returns a source range of the Service address with this number.
  Row Sources(uint32_t number, uint32_t first, uint32_t last) const {
    return SourceRow(family(), number, first, last);
  }
  static Transaction Addition(const Row& row) { return Changes({}, {row}); }
  void ExpectAdditionRejected(const Row& row, absl::StatusCode code) {
    ExpectRejected(Addition(row), code, 0);
  }
};
INSTANTIATE_TEST_SUITE_P(All, SeveralFieldsContract, EveryKernel(), KernelCaseName);

// Linux 5.10 and 6.1 accept some of these ranges. svcmapd does not rely on the error, because its
// ranges are disjoint (S-120).
TEST_P(SeveralFieldsContract, OverlappingRangesAreRejected) {
  CreateTable();
  Add({Sources(1, 0x100, 0x1ff)});
  const std::pair<uint32_t, uint32_t> kCases[] = {{0x120, 0x140}, {0x180, 0x280}, {0x80, 0x180},
                                                  {0x100, 0x17f}, {0x180, 0x1ff}, {0x100, 0x2ff},
                                                  {0x1ff, 0x1ff}, {0x100, 0x100}};
  std::vector<std::string> accepted;
  for (const auto& [first, last] : kCases) {
    const std::string name =
        absl::StrCat(absl::Hex(first, absl::kZeroPad3), "-", absl::Hex(last, absl::kZeroPad3));
    SCOPED_TRACE(name);
    const Row row = Sources(1, first, last);
    if (OldKernelCommits(Addition(row))) {
      accepted.push_back(name);
      Transaction again;
      again.DropTable(family());
      again.CreateTable({family()});
      again.Add(Sources(1, 0x100, 0x1ff));
      Commit(again);
      continue;
    }
    ExpectAdditionRejected(row, absl::StatusCode::kAlreadyExists);
  }
  if (!accepted.empty()) {
    GTEST_SKIP() << NotApplicable(
        absl::StrCat("the kernel accepts ranges that overlap the range 100-1ff: ",
                     absl::StrJoin(accepted, ", ")));
  }
}

TEST_P(SeveralFieldsContract, DeletingWhatIsNotThereIsRejected) {
  CreateTable();
  Add({Sources(1, 0x100, 0x1ff)});
  ExpectRejected(Changes({Sources(2, 0x100, 0x1ff)}, {}), absl::StatusCode::kNotFound, 0);
  ExpectRejected(Changes({Sources(1, 0x200, 0x2ff)}, {}), absl::StatusCode::kNotFound, 0);
}

TEST_P(SeveralFieldsContract, ARejectedBatchUndoesRanges) {
  CreateTable();
  Add({Sources(1, 0x100, 0x1ff)});
  Transaction transaction;
  transaction.Delete(Sources(1, 0x100, 0x1ff));
  transaction.Add(Sources(1, 0x100, 0x2ff));
  transaction.Delete(Sources(3, 0x100, 0x2ff));
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 2);
}

TEST_P(SeveralFieldsContract, AKeyFindsTheRangeItLiesIn) {
  CreateTable();
  const Row row = Sources(1, 0x100, 0x1ff);
  Add({row});
  for (const uint32_t key : {0x100u, 0x120u, 0x1ffu}) {
    EXPECT_THAT(ReadOne(Sources(1, key, key)), Optional(row.Read())) << key;
  }
  EXPECT_EQ(ReadOne(Sources(1, 0xff, 0xff)), std::nullopt);
  EXPECT_EQ(ReadOne(Sources(1, 0x200, 0x200)), std::nullopt);
  EXPECT_EQ(ReadOne(Sources(2, 0x100, 0x1ff)), std::nullopt);
}

TEST_P(SeveralFieldsContract, EndElementsAreRejected) {
  CreateTable();
  Row end = Sources(1, 0x100, 0x1ff);
  end.interval_end = true;
  if (OldKernelCommits(Addition(end))) {
    GTEST_SKIP() << NotApplicable("the kernel accepts an end element in a set with several fields");
  }
  ExpectAdditionRejected(end, absl::StatusCode::kInvalidArgument);
}

TEST_P(SeveralFieldsContract, AnOrdinarySetHasNoRanges) {
  CreateTable();
  Row row = testing::ClusterIpRow(family(), 1);
  row.key_end = row.key;
  if (OldKernelCommits(Addition(row))) {
    GTEST_SKIP() << NotApplicable("the kernel accepts a last key in a set without ranges");
  }
  ExpectAdditionRejected(row, absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace svcmap::nft
