// Tests that tables whose rules count connections behave like other tables in commits, comparisons
// and rewrites.
#include "nft/netlink/counter_reader.h"
#include "tests/contract/kernel_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::NetNs;
using ::svcmap::testing::RunNft;
using ::svcmap::testing::ServiceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
