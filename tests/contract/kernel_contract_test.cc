// What nft::Kernel promises, asked of the one in memory and of the real one, for both families.
// Where a test says how Linux behaves, the fake has to follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "nft/fake/fake_kernel.h"
#include "nft/netlink/netlink_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::AddressRow;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::Row;
using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::UnorderedElementsAre;

enum class Kind { kFake, kReal };

class KernelContract : public ::testing::TestWithParam<std::tuple<Kind, Family>> {
 protected:
  void SetUp() override {
    TableSpecs tables;
    for (const Family family : kFamilies) tables.push_back(proxy::MakeTable(family, {}));
    if (std::get<Kind>(GetParam()) == Kind::kFake) {
      kernel_ = std::make_unique<FakeKernel>(std::move(tables));
      return;
    }
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] { return NetlinkKernel::Open(tables); }));
  }

  Family family() const { return std::get<Family>(GetParam()); }
  Family other_family() const { return family() == Family::kIpv4 ? Family::kIpv6 : Family::kIpv4; }
  SetRef Set(proxy::SetIndex set) const { return {family(), set}; }

  Transaction Creation(uint32_t size = 1024) const {
    Transaction transaction;
    transaction.CreateTable({family(), std::vector<uint32_t>(proxy::kSetCount, size)});
    return transaction;
  }
  void CreateTable(uint32_t size = 1024) { Commit(Creation(size)); }

  void Commit(const Transaction& transaction) {
    const ApplyResult result = kernel_->Apply(transaction);
    ASSERT_EQ(result.outcome, ApplyOutcome::kCommitted) << result.error;
    EXPECT_OK(result.error);
    EXPECT_EQ(result.failed_element, std::nullopt);
  }
  void Add(const std::vector<Row>& rows) {
    Transaction transaction;
    for (const Row& row : rows) transaction.Add(row);
    Commit(transaction);
  }

  // Applies what must be rejected for `code`, and checks that it left no trace.
  void ExpectRejected(const Transaction& transaction, absl::StatusCode code,
                      std::optional<size_t> failed_element) {
    const uint32_t generation = Generation();
    const auto before = ReadAll();
    const ApplyResult result = kernel_->Apply(transaction);
    EXPECT_EQ(result.outcome, ApplyOutcome::kRejected);
    EXPECT_EQ(result.error.code(), code) << result.error;
    EXPECT_EQ(result.failed_element, failed_element) << result.error;
    EXPECT_EQ(ReadAll(), before);
    EXPECT_EQ(Generation(), generation);
  }

  uint32_t Generation() {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    EXPECT_OK(generation);
    return generation.value_or(0);
  }
  bool HasTable(Family family) {
    const absl::StatusOr<bool> has = kernel_->HasTable(family);
    EXPECT_OK(has);
    return has.value_or(false);
  }
  std::vector<Element> Read(proxy::SetIndex set) {
    absl::StatusOr<std::vector<Element>> elements = kernel_->ReadSet(Set(set));
    EXPECT_OK(elements);
    return elements.ok() ? *std::move(elements) : std::vector<Element>();
  }
  std::optional<Element> ReadOne(const Row& row) {
    absl::StatusOr<std::optional<Element>> element = kernel_->ReadElement(row.set, row.key.bytes());
    EXPECT_OK(element);
    return element.ok() ? *std::move(element) : std::nullopt;
  }
  // Everything in the table, sorted; nothing without a table.
  std::vector<std::vector<Element>> ReadAll() {
    std::vector<std::vector<Element>> all;
    if (!HasTable(family())) return all;
    for (uint8_t set = 0; set < proxy::kSetCount; ++set) {
      all.push_back(Read(static_cast<proxy::SetIndex>(set)));
      std::sort(all.back().begin(), all.back().end());
    }
    return all;
  }

  std::optional<testing::NetNs> netns_;
  std::unique_ptr<Kernel> kernel_;
};

std::string CaseName(const ::testing::TestParamInfo<std::tuple<Kind, Family>>& info) {
  return std::string(std::get<Kind>(info.param) == Kind::kFake ? "Fake" : "Real") +
         std::string(FamilyName(std::get<Family>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(All, KernelContract,
                         ::testing::Combine(::testing::Values(Kind::kFake, Kind::kReal),
                                            ::testing::ValuesIn(kFamilies)),
                         CaseName);

// Tables.

TEST_P(KernelContract, CreatedTableIsThereAndEmpty) {
  EXPECT_FALSE(HasTable(family()));
  CreateTable();
  EXPECT_TRUE(HasTable(family()));
  EXPECT_FALSE(HasTable(other_family()));
  for (const auto& elements : ReadAll()) EXPECT_THAT(elements, IsEmpty());
}

TEST_P(KernelContract, DroppedTableIsGoneWithItsElements) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  Transaction drop;
  drop.DropTable(family());
  Commit(drop);
  EXPECT_FALSE(HasTable(family()));
  CreateTable();
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(KernelContract, DroppingAMissingTableIsNoError) {
  Transaction drop;
  drop.DropTable(family());
  Commit(drop);
  EXPECT_FALSE(HasTable(family()));
}

TEST_P(KernelContract, TheFamiliesDoNotMeet) {
  Transaction both = Creation();
  both.CreateTable({other_family(), {}});
  both.Add(ServiceRow(family(), 1));
  both.Add(ServiceRow(other_family(), 2));
  Commit(both);
  Transaction drop;
  drop.DropTable(other_family());
  Commit(drop);
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

// Callers drop first: chains and rules of the second creation would stand twice in the real kernel.
TEST_P(KernelContract, CreatingAgainKeepsTheElements) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  CreateTable();
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

TEST_P(KernelContract, CreatingAgainChangesTheSize) {
  CreateTable(1);
  CreateTable(2);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction full;
  full.Add(ServiceRow(family(), 3));
  ExpectRejected(full, absl::StatusCode::kResourceExhausted, 0);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 2u);
}

TEST_P(KernelContract, RecreationReplacesEverythingAtOnce) {
  CreateTable(1);
  Add({ServiceRow(family(), 1)});
  Transaction recreate = Creation(2);
  recreate.DropTable(family());  // Drops go first, whatever the order of the calls.
  recreate.Add(ServiceRow(family(), 2));
  recreate.Add(ServiceRow(family(), 3));
  Commit(recreate);
  EXPECT_THAT(Read(proxy::kServiceIps),
              UnorderedElementsAre(ServiceRow(family(), 2).Read(), ServiceRow(family(), 3).Read()));
}

TEST_P(KernelContract, RejectedRecreationLeavesTheOldTable) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  Transaction recreate = Creation();
  recreate.DropTable(family());
  recreate.Add(ServiceRow(family(), 2));
  recreate.Delete(ServiceRow(family(), 1));  // Gone with the old table.
  ExpectRejected(recreate, absl::StatusCode::kNotFound, 1);
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

TEST_P(KernelContract, RejectedCreationLeavesNoTable) {
  Transaction creation = Creation();
  creation.Delete(ServiceRow(family(), 1));
  ExpectRejected(creation, absl::StatusCode::kNotFound, 0);
  EXPECT_FALSE(HasTable(family()));
}

// Elements.

TEST_P(KernelContract, AddedElementsReadBackWithDataAndComment) {
  CreateTable();
  const Row service = ServiceRow(family(), 1, 7).Comment("ns/web:http");
  const Row endpoint = EndpointRow(0x010203, 65534, Address(family(), 9), 65535);
  const Row cluster_ip = ClusterIpRow(family(), 1).Comment("ns/web");
  Add({service, endpoint, cluster_ip});
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(service.Read()));
  EXPECT_THAT(Read(proxy::kEndpoints), ElementsAre(endpoint.Read()));
  EXPECT_THAT(Read(proxy::kClusterIps), ElementsAre(cluster_ip.Read()));
}

TEST_P(KernelContract, DeletedElementsAreGone) {
  CreateTable();
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 2).Read()));
}

TEST_P(KernelContract, DeletionLooksAtTheKeyOnly) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7).Comment("one")});
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1, 8).Comment("another"));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(KernelContract, DeleteThenAddReplacesDataAndComment) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7).Comment("old")});
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1));
  transaction.Add(ServiceRow(family(), 1, 8).Comment("new"));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps),
              ElementsAre(ServiceRow(family(), 1, 8).Comment("new").Read()));
}

TEST_P(KernelContract, AddThenDeleteOfANewKeyLeavesNothing) {
  CreateTable();
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 1));
  transaction.Delete(ServiceRow(family(), 1));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(KernelContract, AKeyMayChangeHandsSeveralTimes) {
  CreateTable();
  Add({ServiceRow(family(), 1, 1)});
  Transaction transaction;
  for (uint32_t data = 2; data <= 4; ++data) {
    transaction.Delete(ServiceRow(family(), 1));
    transaction.Add(ServiceRow(family(), 1, data));
  }
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1, 4).Read()));
}

TEST_P(KernelContract, OrderCounts) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7)});
  Transaction add_first;
  add_first.Add(ServiceRow(family(), 1, 8));
  add_first.Delete(ServiceRow(family(), 1));
  ExpectRejected(add_first, absl::StatusCode::kAlreadyExists, 0);

  Transaction delete_first;
  delete_first.Delete(ServiceRow(family(), 2));
  delete_first.Add(ServiceRow(family(), 2));
  ExpectRejected(delete_first, absl::StatusCode::kNotFound, 0);
}

TEST_P(KernelContract, AddingAgainTheSameIsNoError) {
  CreateTable();
  Add({ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Add({ServiceRow(family(), 1), ClusterIpRow(family(), 1)});
  Transaction twice;
  twice.Add(ServiceRow(family(), 2));
  twice.Add(ServiceRow(family(), 2));
  Commit(twice);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 2u);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), 1u);
}

TEST_P(KernelContract, AddingAgainKeepsTheOldComment) {
  CreateTable();
  Add({ServiceRow(family(), 1).Comment("old")});
  Add({ServiceRow(family(), 1).Comment("new")});
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Comment("old").Read()));
}

TEST_P(KernelContract, AddingAKeyWithOtherDataIsRejected) {
  CreateTable();
  Add({ServiceRow(family(), 1, 7)});
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 2));
  transaction.Add(ServiceRow(family(), 1, 8));
  ExpectRejected(transaction, absl::StatusCode::kAlreadyExists, 1);
}

TEST_P(KernelContract, DeletingAMissingElementIsRejected) {
  CreateTable();
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1));
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 0);
}

TEST_P(KernelContract, ElementsOfAMissingTableAreRejectedAndNoneIsNamed) {
  Transaction add;
  add.Add(ServiceRow(family(), 1));
  ExpectRejected(add, absl::StatusCode::kNotFound, std::nullopt);
  Transaction remove;
  remove.Delete(ServiceRow(family(), 1));
  ExpectRejected(remove, absl::StatusCode::kNotFound, std::nullopt);
}

TEST_P(KernelContract, WrongLengthsAreRejected) {
  CreateTable();
  const Row good = ServiceRow(family(), 1);
  const auto rejected = [&](proxy::SetIndex set, size_t key_size, size_t data_size) {
    const std::vector<uint8_t> key(key_size, 1), data(data_size, 2);
    Transaction transaction;
    transaction.Add(good);
    transaction.Add({.set = Set(set), .key = key, .data = data, .comment = {}});
    ExpectRejected(transaction, absl::StatusCode::kInvalidArgument, 1);
  };
  const size_t address = family() == Family::kIpv4 ? 4 : 16;
  rejected(proxy::kServiceIps, address + 8 - 2, address);  // The port's padding is part of the key.
  rejected(proxy::kServiceIps, address + 8 + 4, address);
  rejected(proxy::kServiceIps, 0, address);
  rejected(proxy::kServiceIps, address + 8, address - 1);
  rejected(proxy::kServiceIps, address + 8, address + 1);
  rejected(proxy::kServiceIps, address + 8, 0);  // A map wants data,
  rejected(proxy::kClusterIps, address, 4);      // a set has none.

  Transaction remove;
  const std::vector<uint8_t> key(address, 1);
  remove.Delete({.set = Set(proxy::kServiceIps), .key = key, .data = {}, .comment = {}});
  ExpectRejected(remove, absl::StatusCode::kInvalidArgument, 0);
}

TEST_P(KernelContract, OneBadElementInTheMiddleIsNamedAndNothingHappens) {
  CreateTable(4096);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1));
  for (uint32_t i = 0; i < 500; ++i) {
    transaction.Add(EndpointRow(i, 0, Address(family(), i), 80));
  }
  transaction.Delete(ServiceRow(family(), 2));
  transaction.Delete(ServiceRow(family(), 3));  // Number 502 is not there.
  transaction.Delete(ServiceRow(family(), 4));  // The first bad one counts.
  for (uint32_t i = 0; i < 500; ++i) transaction.Add(ClusterIpRow(family(), i));
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 502);
}

TEST_P(KernelContract, ABadElementIsNamedInAnyMessageOfALargeBatch) {
  constexpr uint32_t kCount = 20'000;  // A dozen messages.
  CreateTable(kCount);
  Add({EndpointRow(17'123, 0, Address(family(), 5), 5)});
  Transaction transaction;
  for (uint32_t i = 1; i < kCount; ++i) {
    transaction.Add(EndpointRow(i, 0, Address(family(), i), 80));
  }
  ExpectRejected(transaction, absl::StatusCode::kAlreadyExists, 17'122);
}

TEST_P(KernelContract, CommentsOf127BytesReadBack) {
  CreateTable();
  const Row row = ServiceRow(family(), 1).Comment(std::string(Transaction::kMaxComment, 'x'));
  Add({row});
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(row.Read()));
  EXPECT_THAT(ReadOne(row), Optional(row.Read()));
}

// Sizes.

TEST_P(KernelContract, ASizedMapTakesItsSizeAndNotOneMore) {
  CreateTable(3);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 3));
  transaction.Add(ServiceRow(family(), 4));
  ExpectRejected(transaction, absl::StatusCode::kResourceExhausted, 1);
  Add({ServiceRow(family(), 3)});
  Transaction one_more;
  one_more.Add(ServiceRow(family(), 4));
  ExpectRejected(one_more, absl::StatusCode::kResourceExhausted, 0);
}

TEST_P(KernelContract, AFullMapTakesReplacementsAndRepeats) {
  CreateTable(2);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
  Transaction transaction;
  transaction.Delete(ServiceRow(family(), 1));
  transaction.Add(ServiceRow(family(), 3));
  transaction.Add(ServiceRow(family(), 2));  // There already.
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps),
              UnorderedElementsAre(ServiceRow(family(), 2).Read(), ServiceRow(family(), 3).Read()));
}

TEST_P(KernelContract, AFullMapTakesNoAdditionBeforeTheDeletion) {
  CreateTable(1);
  Add({ServiceRow(family(), 1)});
  Transaction transaction;
  transaction.Add(ServiceRow(family(), 2));
  transaction.Delete(ServiceRow(family(), 1));
  ExpectRejected(transaction, absl::StatusCode::kResourceExhausted, 0);
}

TEST_P(KernelContract, RejectedAdditionsDoNotUseUpTheSize) {
  CreateTable(2);
  for (int i = 0; i < 5; ++i) {
    Transaction transaction;
    transaction.Add(ServiceRow(family(), 1));
    transaction.Add(ServiceRow(family(), 2));
    transaction.Delete(ServiceRow(family(), 3));
    ExpectRejected(transaction, absl::StatusCode::kNotFound, 2);
  }
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2)});
}

TEST_P(KernelContract, SetsWithoutASizeGrow) {
  CreateTable(1);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 3000; ++i) rows.push_back(ClusterIpRow(family(), i));
  Add(rows);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), rows.size());
}

TEST_P(KernelContract, SizeZeroIsNoLimit) {
  CreateTable(0);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 3000; ++i) rows.push_back(ServiceRow(family(), i));
  Add(rows);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), rows.size());
}

// Ranges.

TEST_P(KernelContract, RangesReadBackAsStartsAndEnds) {
  CreateTable();
  const std::vector<Row> rows = {
      RangeStart(Address(family(), 0x100)), RangeEnd(Address(family(), 0x200)),
      RangeStart(Address(family(), 0x200)), RangeEnd(Address(family(), 0x300))};
  Add(rows);
  EXPECT_THAT(Read(proxy::kServiceCidrs),
              UnorderedElementsAre(rows[0].Read(), rows[1].Read(), rows[2].Read(), rows[3].Read()));
}

TEST_P(KernelContract, AnAddressFindsTheStartOfItsRange) {
  CreateTable();
  const Row start = RangeStart(Address(family(), 0x100));
  Add({start, RangeEnd(Address(family(), 0x200))});
  EXPECT_THAT(ReadOne(start), Optional(start.Read()));
  EXPECT_THAT(ReadOne(RangeStart(Address(family(), 0x1ff))), Optional(start.Read()));
  EXPECT_EQ(ReadOne(RangeStart(Address(family(), 0xff))), std::nullopt);
  EXPECT_EQ(ReadOne(RangeStart(Address(family(), 0x200))), std::nullopt);
}

TEST_P(KernelContract, AStartAloneReachesToTheHighestAddress) {
  CreateTable();
  const IpAddress zero = family() == Family::kIpv4 ? testing::Ip("0.0.0.0") : testing::Ip("::");
  Add({RangeStart(zero)});
  EXPECT_THAT(Read(proxy::kServiceCidrs), ElementsAre(RangeStart(zero).Read()));
  EXPECT_THAT(ReadOne(RangeStart(Address(family(), 5))), Optional(RangeStart(zero).Read()));
}

TEST_P(KernelContract, RangesAreDeletedByBothEnds) {
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

TEST_P(KernelContract, ARangeMayBeReplacedByALargerOne) {
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

TEST_P(KernelContract, AddingARangeAgainIsNoError) {
  CreateTable();
  const std::vector<Row> range = {RangeStart(Address(family(), 0x100)),
                                  RangeEnd(Address(family(), 0x200))};
  Add(range);
  Add(range);
  EXPECT_EQ(Read(proxy::kServiceCidrs).size(), 2u);
}

TEST_P(KernelContract, OverlappingRangesAreRejected) {
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

TEST_P(KernelContract, AnEndIsNoElementOfAPlainSet) {
  CreateTable();
  Row row = ClusterIpRow(family(), 1);
  row.interval_end = true;
  Transaction transaction;
  transaction.Add(row);
  ExpectRejected(transaction, absl::StatusCode::kInvalidArgument, 0);
}

// Reading.

TEST_P(KernelContract, ReadElementFindsWhatIsThere) {
  CreateTable();
  const Row row = ServiceRow(family(), 1, 7).Comment("ns/web:http");
  Add({row, ServiceRow(family(), 2)});
  EXPECT_THAT(ReadOne(row), Optional(row.Read()));
}

TEST_P(KernelContract, ReadElementOfAMissingElementOrTableIsNothing) {
  EXPECT_EQ(ReadOne(ServiceRow(family(), 1)), std::nullopt);
  CreateTable();
  EXPECT_EQ(ReadOne(ServiceRow(family(), 1)), std::nullopt);
}

TEST_P(KernelContract, ReadElementWithAKeyOfTheWrongLengthIsAnError) {
  CreateTable();
  const std::vector<uint8_t> key(3, 1);
  EXPECT_EQ(kernel_->ReadElement(Set(proxy::kServiceIps), key).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(KernelContract, ReadSetOfAMissingTableIsAnError) {
  EXPECT_EQ(kernel_->ReadSet(Set(proxy::kServiceIps)).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(KernelContract, ReadSetReturnsEachOfTenThousandElementsOnce) {
  constexpr uint32_t kCount = 10'000;
  CreateTable(kCount);
  Transaction transaction;
  std::vector<Element> expected;
  for (uint32_t i = 0; i < kCount; ++i) {
    const Row row = ServiceRow(family(), i, i).Comment("service-" + std::to_string(i));
    transaction.Add(row);
    expected.push_back(row.Read());
  }
  Commit(transaction);
  std::vector<Element> read = Read(proxy::kServiceIps);
  std::sort(read.begin(), read.end());
  EXPECT_TRUE(read == expected);
}

// Batches.

TEST_P(KernelContract, AHundredThousandElementsInOneBatch) {
  constexpr uint32_t kCount = 100'000;
  Transaction transaction = Creation(kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Add(EndpointRow(i / 10, i % 10, Address(family(), i), 8080));
  }
  Commit(transaction);
  for (const uint32_t i : {0u, 1u, 50'000u, kCount - 1}) {
    const Row row = EndpointRow(i / 10, i % 10, Address(family(), i), 8080);
    EXPECT_THAT(ReadOne(row), Optional(row.Read()));
  }
  EXPECT_EQ(Read(proxy::kEndpoints).size(), kCount);
}

// Neighbours of one set and one verb share a message; here every element has one of its own, far
// more than a socket could hold acknowledgements for.
TEST_P(KernelContract, ABatchOfThousandsOfMessages) {
  constexpr uint32_t kCount = 3000;
  CreateTable(kCount);
  Transaction transaction;
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Add(ServiceRow(family(), i));
    transaction.Add(ClusterIpRow(family(), i));
  }
  Commit(transaction);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), kCount);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), kCount);
}

// Each bad message costs an answer; the first ones arrive, the others are lost.
TEST_P(KernelContract, ABatchOfThousandsOfBadMessagesIsRejectedAndTheFirstIsNamed) {
  constexpr uint32_t kCount = 3000;
  CreateTable();
  Transaction transaction;
  transaction.Add(ClusterIpRow(family(), 1));
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Delete(ServiceRow(family(), i));
    transaction.Delete(ClusterIpRow(family(), i + 100));
  }
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 1);
}

TEST_P(KernelContract, AnEmptyTransactionIsCommittedWithoutTheKernel) {
  const uint32_t generation = Generation();
  Commit(Transaction());
  EXPECT_EQ(Generation(), generation);
}

TEST_P(KernelContract, EachCommitAddsOneToTheGeneration) {
  uint32_t generation = Generation();
  CreateTable();
  EXPECT_EQ(Generation(), ++generation);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2), ClusterIpRow(family(), 1)});
  EXPECT_EQ(Generation(), ++generation);
  Transaction add_and_delete;
  add_and_delete.Add(ServiceRow(family(), 3));
  add_and_delete.Delete(ServiceRow(family(), 3));
  Commit(add_and_delete);
  EXPECT_EQ(Generation(), ++generation);
  CreateTable();
  EXPECT_EQ(Generation(), ++generation);
  for (int i = 0; i < 2; ++i) {  // The second time there is no table to drop.
    Transaction drop;
    drop.DropTable(family());
    Commit(drop);
    EXPECT_EQ(Generation(), ++generation);
  }
}

TEST_P(KernelContract, ABatchThatChangesNothingAddsNothingToTheGeneration) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  const uint32_t generation = Generation();
  Add({ServiceRow(family(), 1).Comment("lost")});
  EXPECT_EQ(Generation(), generation);
}

TEST_P(KernelContract, ReadingAddsNothingToTheGeneration) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  const uint32_t generation = Generation();
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 1u);
  EXPECT_NE(ReadOne(ServiceRow(family(), 1)), std::nullopt);
  EXPECT_TRUE(HasTable(family()));
  EXPECT_EQ(Generation(), generation);
}

TEST_P(KernelContract, ARejectedBatchDoesNotSpoilTheNextOne) {
  CreateTable();
  for (uint32_t i = 0; i < 20; ++i) {
    Transaction bad;
    bad.Add(ServiceRow(family(), i));
    bad.Delete(ServiceRow(family(), 1000));
    ExpectRejected(bad, absl::StatusCode::kNotFound, 1);
    Add({ServiceRow(family(), i)});
  }
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 20u);
}

}  // namespace
}  // namespace svcmap::nft
