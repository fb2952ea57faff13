// Tests of complete tables, of batches, and of counters.
#include "nft/netlink/counter_reader.h"
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::NetNs;
using ::svcmap::testing::RunNft;
using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::UnorderedElementsAre;

class TableContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, TableContract, EveryKernel(), KernelCaseName);

TEST_P(TableContract, CreatedTableIsThereAndEmpty) {
  EXPECT_FALSE(HasTable(family()));
  CreateTable();
  EXPECT_TRUE(HasTable(family()));
  EXPECT_FALSE(HasTable(other_family()));
  for (const auto& elements : ReadAll()) EXPECT_THAT(elements, IsEmpty());
}

TEST_P(TableContract, DroppedTableIsGoneWithItsElements) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  DropTable(family());
  EXPECT_FALSE(HasTable(family()));
  CreateTable();
  EXPECT_THAT(Read(proxy::kServiceIps), IsEmpty());
}

TEST_P(TableContract, DroppingAMissingTableIsNoError) {
  DropTable(family());
  EXPECT_FALSE(HasTable(family()));
}

TEST_P(TableContract, TheFamiliesDoNotMeet) {
  Transaction both = Creation();
  both.CreateTable({other_family()});
  both.Add(ServiceRow(family(), 1));
  both.Add(ServiceRow(other_family(), 2));
  Commit(both);
  DropTable(other_family());
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

TEST_P(TableContract, RecreationReplacesEverythingAtOnce) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  Transaction recreate = Creation();
  recreate.DropTable(family());  // Drops take effect first, regardless of the order of calls.
  recreate.Add(ServiceRow(family(), 2));
  recreate.Add(ServiceRow(family(), 3));
  Commit(recreate);
  EXPECT_THAT(Read(proxy::kServiceIps),
              UnorderedElementsAre(ServiceRow(family(), 2).Read(), ServiceRow(family(), 3).Read()));
}

TEST_P(TableContract, RejectedRecreationLeavesTheOldTable) {
  CreateTable();
  Add({ServiceRow(family(), 1)});
  Transaction recreate = Creation();
  recreate.DropTable(family());
  recreate.Add(ServiceRow(family(), 2));
  recreate.Delete(ServiceRow(family(), 1));  // This element is deleted with the old table.
  ExpectRejected(recreate, absl::StatusCode::kNotFound, 1);
  EXPECT_THAT(Read(proxy::kServiceIps), ElementsAre(ServiceRow(family(), 1).Read()));
}

TEST_P(TableContract, RejectedCreationLeavesNoTable) {
  Transaction creation = Creation();
  creation.Delete(ServiceRow(family(), 1));
  ExpectRejected(creation, absl::StatusCode::kNotFound, 0);
  EXPECT_FALSE(HasTable(family()));
}

// Tests of large batches and of the generation id.
class BatchContract : public KernelContract {};
INSTANTIATE_TEST_SUITE_P(All, BatchContract, EveryKernel(), KernelCaseName);

TEST_P(BatchContract, AHundredThousandElementsInOneBatch) {
  constexpr uint32_t kCount = 100'000;
  Transaction transaction = Creation();
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

// A message contains consecutive elements with the same set and the same operation. This test
// alternates between two sets, so each element needs a separate message. The acknowledgements of
// 6,000 messages would not fit into a socket's buffer.
TEST_P(BatchContract, ABatchOfThousandsOfMessages) {
  constexpr uint32_t kCount = 3000;
  CreateTable();
  Transaction transaction;
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Add(ServiceRow(family(), i));
    transaction.Add(ClusterIpRow(family(), i));
  }
  Commit(transaction);
  EXPECT_EQ(Read(proxy::kServiceIps).size(), kCount);
  EXPECT_EQ(Read(proxy::kClusterIps).size(), kCount);
}

// Each invalid message causes a response. The socket receives the first responses and loses all
// other responses.
TEST_P(BatchContract, ABatchOfThousandsOfBadMessagesIsRejectedAndTheFirstIsNamed) {
  constexpr uint32_t kCount = 3000;
  CreateTable();
  Transaction transaction = Changes({}, {ClusterIpRow(family(), 1)});
  for (uint32_t i = 0; i < kCount; ++i) {
    transaction.Delete(ServiceRow(family(), i));
    transaction.Delete(ClusterIpRow(family(), i + 100));
  }
  ExpectRejected(transaction, absl::StatusCode::kNotFound, 1);
}

TEST_P(BatchContract, EachCommitThatChangesSomethingAddsOneToTheGeneration) {
  uint32_t generation = Generation();
  CreateTable();
  EXPECT_EQ(Generation(), ++generation);
  Add({ServiceRow(family(), 1), ServiceRow(family(), 2), ClusterIpRow(family(), 1)});
  EXPECT_EQ(Generation(), ++generation);
  Commit(Transaction());
  Add({ServiceRow(family(), 1).Comment("lost")});
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 2u);
  EXPECT_NE(ReadOne(ServiceRow(family(), 1)), std::nullopt);
  EXPECT_TRUE(HasTable(family()));
  EXPECT_EQ(Generation(), generation);
  Transaction add_and_delete;
  add_and_delete.Add(ServiceRow(family(), 3));
  add_and_delete.Delete(ServiceRow(family(), 3));
  Commit(add_and_delete);
  EXPECT_EQ(Generation(), ++generation);
  Transaction recreate = Creation();
  recreate.DropTable(family());
  Commit(recreate);
  EXPECT_EQ(Generation(), ++generation);
  for (int i = 0; i < 2; ++i) {  // The table does not exist in the second iteration.
    DropTable(family());
    EXPECT_EQ(Generation(), ++generation);
  }
}

// Tests that tables whose rules count connections behave like other tables in commits, comparisons
// and rewrites.

const proxy::RulesetOptions kCounting{.count_connections = true};
const uint8_t kServiceConnections = proxy::ConnectionCountSet(kCounting);

TableSpecs CountingTables() { return proxy::MakeTables(kCounting); }

class CountersContract : public KernelContract {
 protected:
  void SetUp() override {
    KernelContract::SetUp();
    if (HasFatalFailure()) return;
    if (netns_) {
      ASSERT_OK_AND_ASSIGN(kernel_,
                           netns_->Run([] { return NetlinkKernel::Open(CountingTables()); }));
    } else {
      kernel_ = std::make_unique<FakeKernel>(CountingTables());
    }
  }

  Row CountedRow(uint32_t number) const {
    Row row = ServiceRow(family(), number);
    row.set.set = kServiceConnections;
    row.data = {};
    return row;
  }
  ChainRepair AllChains(const proxy::RulesetOptions& options) const {
    ChainRepair repair{.family = family()};
    for (const ChainSpec& chain : proxy::MakeTable(family(), options).chains) {
      repair.rewrite.push_back(chain.name);
    }
    return repair;
  }
};
INSTANTIATE_TEST_SUITE_P(All, CountersContract, EveryKernel(), KernelCaseName);

TEST_P(CountersContract, ATableIsAsItsReferenceWhateverWasCounted) {
  CreateTable();
  Add({ServiceRow(family(), 1), CountedRow(1), CountedRow(2)});
  ASSERT_OK_AND_ASSIGN(const auto content, kernel_->ReadTable(family()));
  ASSERT_OK_AND_ASSIGN(const TableContent reference,
                       kernel_->ReferenceContent(proxy::MakeTable(family(), kCounting)));
  EXPECT_EQ(content->chains, reference.chains);
  EXPECT_EQ(content->sets, reference.sets);
  EXPECT_EQ(content->elements.at("service-connections"), 2u);
}

// Tests of switching between runs with and without --service-counters.
class RealCounters : public CountersContract {
 protected:
  std::string Table() const { return family() == Family::kIpv4 ? "ip svcmap" : "ip6 svcmap"; }
  std::vector<ElementCount> Counts(const NetNs& netns) {
    const auto reader = netns.Run([] { return CounterReader::Open(CountingTables()); });
    EXPECT_OK(reader);
    auto counts = (*reader)->Read(SetRef{family(), kServiceConnections});
    EXPECT_OK(counts);
    return counts.value_or(std::vector<ElementCount>());
  }
};
INSTANTIATE_TEST_SUITE_P(All, RealCounters,
                         ::testing::Combine(::testing::Values(KernelKind::kReal),
                                            ::testing::ValuesIn(kFamilies)),
                         KernelCaseName);

TEST_P(RealCounters, CountsAreReadWithTheirKeys) {
  EXPECT_THAT(Counts(*netns_), IsEmpty());  // The table does not exist.
  CreateTable();
  EXPECT_THAT(Counts(*netns_), IsEmpty());
  for (const auto& [number, packets] : {std::pair(2, "7"), std::pair(1, "4294967297")}) {
    ASSERT_OK(RunNft(*netns_, "add element " + Table() + " service-connections { " +
                                  Address(family(), number).ToString() +
                                  " . tcp . 80 counter packets " + packets + " bytes 0 }\n"));
  }
  EXPECT_THAT(Counts(*netns_), ElementsAre(ElementCount{CountedRow(1).Read().key, 4294967297},
                                           ElementCount{CountedRow(2).Read().key, 7}));
  // ReadElement omits the counter of an element.
  EXPECT_THAT(ReadOne(CountedRow(2)), CountedRow(2).Read());
}

TEST_P(RealCounters, CountingBeginsAndEndsInPlace) {
  ASSERT_OK_AND_ASSIGN(const auto without,
                       netns_->Run([] { return NetlinkKernel::Open(proxy::MakeTables({})); }));
  ASSERT_OK(without->Apply(Creation()).error);
  ASSERT_OK_AND_ASSIGN(const auto before, without->ReadTable(family()));
  ChainRepair begin = AllChains(kCounting);
  begin.add_sets = {"service-connections"};
  Transaction there;
  there.RepairChains(std::move(begin));
  Commit(there);
  Add({CountedRow(1)});

  ChainRepair end = AllChains({});
  end.remove_chains = {"count"};
  end.remove_sets = {"service-connections"};
  Transaction back;
  back.RepairChains(std::move(end));
  ASSERT_OK(without->Apply(back).error);
  ASSERT_OK_AND_ASSIGN(const auto after, without->ReadTable(family()));
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace svcmap::nft
