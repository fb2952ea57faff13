// Tests of table content digests: equal for two creations of the same table, and different after
// any change by another process (S-345).
#include <linux/netfilter/nf_tables.h>

#include <map>
#include <set>

#include "tests/contract/foreign_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::ClusterIpRow;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::RecordRow;
using ::svcmap::testing::ServiceRow;
using ::svcmap::testing::SourceRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Digests = std::map<std::string, uint64_t>;

// Returns the names whose digests differ, and the names that only one argument contains.
std::set<std::string> Changed(const Digests& before, const Digests& after) {
  std::set<std::string> names;
  for (const auto& [name, digest] : before) {
    const auto found = after.find(name);
    if (found == after.end() || found->second != digest) names.insert(name);
  }
  for (const auto& [name, digest] : after) {
    if (!before.contains(name)) names.insert(name);
  }
  return names;
}

class TableContentContract : public ForeignContract {
 protected:
  Transaction Recreation() {
    Transaction recreation = Creation();
    recreation.DropTable(family());
    return recreation;
  }
};
INSTANTIATE_TEST_SUITE_P(All, TableContentContract, EveryKernel(), KernelCaseName);

TEST_P(TableContentContract, NamesTheChainsAndSetsOfTheSpec) {
  CreateTable();
  const TableSpec spec = proxy::MakeTable(family(), {});
  const TableContent content = Content();
  EXPECT_EQ(content.chains.size(), spec.chains.size());
  for (const ChainSpec& chain : spec.chains) EXPECT_TRUE(content.chains.contains(chain.name));
  EXPECT_EQ(content.sets.size(), spec.sets.size());
  for (const SetSpec& set : spec.sets) EXPECT_TRUE(content.sets.contains(set.name));
  EXPECT_THAT(content.objects, IsEmpty());
}

TEST_P(TableContentContract, NamesTypeHookAndPriorityOfBaseChains) {
  CreateTable();
  std::map<std::string, BaseChain> bases;
  for (const ChainSpec& chain : proxy::MakeTable(family(), {}).chains) {
    if (chain.base) bases[chain.name] = *chain.base;
  }
  EXPECT_EQ(Content().bases, bases);
}

TEST_P(TableContentContract, TwoCreationsAreEqual) {
  CreateTable();
  const TableContent first = Content();
  Commit(Recreation());  // Sizes are not part of the content.
  EXPECT_EQ(Content(), first);
}

TEST_P(TableContentContract, CountsEqualDumpsInAllKindsOfSets) {
  CreateTable();
  std::vector<Row> rows;
  for (uint32_t i = 1; i <= 300; ++i) {
    rows.push_back(ServiceRow(family(), i));  // Rows of a map with a fixed size.
    // Rows of a set that is hashed by one or more words.
    rows.push_back(ClusterIpRow(family(), i));
    rows.push_back(EndpointRow(1, i, Address(family(), i), 80));
    rows.push_back(RangeStart(Address(family(), 4 * i)));  // Ranges in a set with one field.
    rows.push_back(RangeEnd(Address(family(), 4 * i + 2)));
    rows.push_back(SourceRow(family(), i, 0x100, 0x1ff));  // Ranges in a set with several fields.
    rows.push_back(RecordRow(family(), i, 1, 0x10001));    // Elements that rules add.
  }
  rows.push_back(RangeStart(Address(family(), 0xff0000)));  // A range up to the highest address.
  Add(rows);
  const auto expect_equal = [&] {
    const TableContent content = Content();
    const TableSpec spec = proxy::MakeTable(family(), {});
    for (size_t i = 0; i < spec.sets.size(); ++i) {
      SCOPED_TRACE(spec.sets[i].name);
      ASSERT_TRUE(content.elements.contains(spec.sets[i].name));
      EXPECT_EQ(content.elements.at(spec.sets[i].name),
                Read(static_cast<proxy::SetIndex>(i)).size() / (spec.sets[i].has_bounds() ? 2 : 1));
    }
  };
  expect_equal();
  Transaction deletion;
  for (size_t i = 0; i < rows.size() / 3; ++i) deletion.Delete(rows[i]);
  Commit(deletion);
  expect_equal();
  Transaction failing;  // Changes of an aborted transaction do not change the digest.
  failing.Add(RangeStart(Address(family(), 0xf00000)));
  failing.Add(SourceRow(family(), 9999, 1, 2));
  failing.Delete(ServiceRow(family(), 9999));
  EXPECT_EQ(kernel_->Apply(failing).outcome, ApplyOutcome::kRejected);
  expect_equal();
}

TEST_P(TableContentContract, ChainsAndSetsThatComeAndGoAreSeen) {
  CreateTable();
  const TableContent before = Content();
  AddChain("foreign");
  AddSet("foreign-set");
  DeleteChain("nat-output");
  const TableContent after = Content();
  EXPECT_THAT(Changed(before.chains, after.chains), ElementsAre("foreign", "nat-output"));
  EXPECT_THAT(Changed(before.sets, after.sets), ElementsAre("foreign-set"));
}

// The remaining tests need features that the fake kernel does not have.
class RealTableContent : public TableContentContract {};
INSTANTIATE_TEST_SUITE_P(All, RealTableContent,
                         ::testing::Combine(::testing::Values(KernelKind::kReal),
                                            ::testing::ValuesIn(kFamilies)),
                         KernelCaseName);

TEST_P(RealTableContent, EveryRuleOfEveryChainCounts) {
  CreateTable();
  const TableContent before = Content();
  const TableSpec spec = proxy::MakeTable(family(), {});
  for (const char* chain : {"dispatch", "pick", "services", "cluster-ips-check", "pick-first"}) {
    for (const std::string& handle : Handles(chain)) {
      Commit(Recreation());
      Nft("delete rule %T " + std::string(chain) + " handle " + handle);
      EXPECT_THAT(Changed(before.chains, Content().chains), ElementsAre(chain)) << handle;
    }
  }
}

TEST_P(RealTableContent, OrderOfRulesCounts) {
  CreateTable();
  const TableContent before = Content();
  const std::string ip = family() == Family::kIpv4 ? "ip" : "ip6";
  const std::string chain = "cluster-ips-check";
  const std::string first = Handles(chain).front();
  const std::string rule =
      "add rule %T " + chain + " " + ip + " daddr @cluster-ips goto reject-chain";
  Nft("delete rule %T " + chain + " handle " + first + "\n" + rule);
  EXPECT_THAT(Changed(before.chains, Content().chains), ElementsAre(chain));
  Nft("delete rule %T " + chain + " handle " + Handles(chain).front() + "\nadd rule %T " + chain +
      " " + ip + " daddr @service-cidrs drop");
  EXPECT_EQ(Content(), before) << "the same rules, written by nft";
}

TEST_P(RealTableContent, SetsInsideRulesCountWithTheirRules) {
  CreateTable();
  Nft("add rule %T mark-masq meta mark { 1, 2, 3 } return");
  const TableContent before = Content();
  const auto replace = [&](const std::string& rule) {
    Nft("replace rule %T mark-masq handle " + Handles("mark-masq").back() + " " + rule);
  };
  replace("meta mark { 1, 2, 3 } return");
  EXPECT_EQ(Content(), before) << "the kernel calls the set by another name now";
  replace("meta mark { 1, 2 } return");
  EXPECT_THAT(Changed(before.chains, Content().chains), ElementsAre("mark-masq"));
}

TEST_P(RealTableContent, ChangedBaseChainsAreSeen) {
  CreateTable();
  const TableContent before = Content();
  Nft("add chain %T filter-forward { policy drop; }");
  EXPECT_THAT(Changed(before.chains, Content().chains), ElementsAre("filter-forward"));
  Commit(Recreation());
  Nft("delete chain %T nat-output\n"
      "add chain %T nat-output { type nat hook output priority 7; }\n"
      "add rule %T nat-output jump services");
  EXPECT_THAT(Changed(before.chains, Content().chains), ElementsAre("nat-output"));
}

TEST_P(RealTableContent, RedefinedSetsAreSeen) {
  CreateTable();
  const TableContent before = Content();
  Nft("flush chain %T nat-postrouting\ndelete set %T hairpin-connections\n"
      "add set %T hairpin-connections { type ipv4_addr; }");
  EXPECT_THAT(Changed(before.sets, Content().sets), ElementsAre("hairpin-connections"));
}

TEST_P(RealTableContent, ObjectsAndFlagsOfTheTableAreSeen) {
  CreateTable();
  Nft("add counter %T hits");
  EXPECT_THAT(Content().objects, ElementsAre(ForeignObject{"hits", NFT_OBJECT_COUNTER}));
  EXPECT_EQ(Content().flags, 0u);
  Nft("add table %T { flags dormant; }");
  EXPECT_EQ(Content().flags, uint32_t{NFT_TABLE_F_DORMANT});
}

TEST_P(RealTableContent, TablesOfOthersDoNotCount) {
  CreateTable();
  const TableContent before = Content();
  for (const std::string table : {"ip other", "ip6 other", "inet svcmap"}) {
    Nft("add table " + table + "\nadd chain " + table + " services\nadd rule " + table +
        " services accept\nadd set " + table + " service-ips { type inet_service; }");
  }
  EXPECT_EQ(Content(), before);
}

}  // namespace
}  // namespace svcmap::nft
