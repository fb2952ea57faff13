// Tests of the repair of chains in place: the repair undoes all changes by other processes without
// modifying any element, including affinity records (S-342, S-345).
#include <linux/netfilter/nf_tables.h>

#include <map>
#include <set>
#include <string>

#include "nft/expr/rule_builder.h"
#include "tests/contract/kernel_contract.h"
#include "tests/contract/rule_handles.h"
#include "tests/support/process.h"

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
using ::testing::SizeIs;
using Digests = std::map<std::string, uint64_t>;

// Base of contract tests on changes by other processes. On the fake kernel, the Foreign methods
// make the changes. On the real kernel, nft(8) makes the changes.
class ForeignContract : public KernelContract {
 protected:
  bool real() const { return std::get<KernelKind>(GetParam()) == KernelKind::kReal; }
  FakeKernel& fake() { return static_cast<FakeKernel&>(*kernel_); }

  // Returns the table in nft syntax, for example "ip svcmap".
  std::string Table() const {
    return std::string(family() == Family::kIpv4 ? "ip " : "ip6 ") + std::string(proxy::kTableName);
  }
  // Runs `script` with nft(8), after replacing %T with the table. Real kernel only.
  void Nft(std::string script) {
    for (size_t at; (at = script.find("%T")) != std::string::npos;) script.replace(at, 2, Table());
    ASSERT_OK(testing::RunNft(*netns_, script));
  }

  void AddRule(const std::string& chain) {
    if (real()) return Nft("add rule %T " + chain + " meta mark 7 return");
    EXPECT_TRUE(fake().ForeignAddRule(family(), chain));
  }
  void DeleteRule(const std::string& chain) {  // Deletes the first rule of the chain.
    if (real()) return Nft("delete rule %T " + chain + " handle " + Handles(chain).front());
    EXPECT_TRUE(fake().ForeignDeleteRule(family(), chain));
  }
  void AddChain(const std::string& chain) {
    if (real()) return Nft("add chain %T " + chain);
    EXPECT_TRUE(fake().ForeignAddChain(family(), chain));
  }
  void DeleteChain(const std::string& chain) {
    if (real()) return Nft("delete chain %T " + chain);
    EXPECT_TRUE(fake().ForeignDeleteChain(family(), chain));
  }
  void AddSet(const std::string& set) {
    if (real()) return Nft("add set %T " + set + " { type inet_service; }");
    EXPECT_TRUE(fake().ForeignAddSet(family(), set));
  }

  std::vector<std::string> Handles(const std::string& chain) {
    return testing::RuleHandles(*netns_, Table(), chain);
  }

  TableContent Content() {
    absl::StatusOr<std::optional<TableContent>> content = kernel_->ReadTable(family());
    EXPECT_OK(content);
    EXPECT_TRUE(content.ok() && *content) << "no table";
    return content.ok() && *content ? **std::move(content) : TableContent();
  }
};

class ChainRepairContract : public ForeignContract {
 protected:
  // Creates a table that has elements of all kinds.
  void Fill() {
    CreateTable();
    Add({RecordRow(family(), 7, 1, 0x10001), ServiceRow(family(), 1),
         EndpointRow(1, 0, Address(family(), 9), 80), RangeStart(Address(family(), 0x100)),
         RangeEnd(Address(family(), 0x200)), SourceRow(family(), 1, 0x100, 0x1ff)});
    content_ = Content();
    elements_ = ReadAll();
  }
  void ExpectAsBefore() {
    EXPECT_EQ(Content(), content_);
    EXPECT_EQ(ReadAll(), elements_);
  }
  ChainRepair Of(std::vector<std::string> rewrite, std::vector<std::string> remove_chains = {},
                 std::vector<std::string> remove_sets = {}) const {
    return {.family = family(),
            .rewrite = std::move(rewrite),
            .remove_chains = std::move(remove_chains),
            .remove_sets = std::move(remove_sets)};
  }
  void Repair(ChainRepair repair) {
    Transaction transaction;
    transaction.RepairChains(std::move(repair));
    Commit(transaction);
  }
  void ExpectRejected(ChainRepair repair, absl::StatusCode code) {
    Transaction transaction;
    transaction.RepairChains(std::move(repair));
    const ApplyResult result = kernel_->Apply(transaction);
    EXPECT_EQ(result.outcome, ApplyOutcome::kRejected);
    EXPECT_EQ(result.error.code(), code) << result.error;
  }

  TableContent content_;
  std::vector<std::vector<Element>> elements_;
};
INSTANTIATE_TEST_SUITE_P(All, ChainRepairContract, EveryKernel(), KernelCaseName);

TEST_P(ChainRepairContract, ChainsThatAreRightStayEqual) {
  Fill();
  std::vector<std::string> all;
  for (const ChainSpec& chain : proxy::MakeTable(family(), {}).chains) all.push_back(chain.name);
  const uint32_t generation = Generation();
  Repair(Of(all));
  ExpectAsBefore();
  EXPECT_EQ(Generation(), generation + 1);
  Repair(Of(all));
  ExpectAsBefore();
}

TEST_P(ChainRepairContract, DeletedPartsComeBackAndForeignPartsGo) {
  Fill();
  DeleteRule("cluster-ips-check");  // Comes back in its place.
  AddRule("pick-3");
  DeleteChain("nat-output");
  AddChain("foreign");
  AddRule("foreign");
  AddSet("foreign-set");
  Repair(Of({"cluster-ips-check", "pick-3", "nat-output"}, {"foreign"}, {"foreign-set"}));
  ExpectAsBefore();
}

TEST_P(ChainRepairContract, ChainsInBothListsAreRecreated) {
  Fill();
  Repair(Of({"nat-output", "filter-input"}, {"nat-output"}));
  ExpectAsBefore();
  // The repair includes all chains that jump to the damaged chain.
  Repair(Of({"services", "external", "mark-masq"}, {"mark-masq"}));
  ExpectAsBefore();
}

// Another process replaced a base chain with a regular chain, so the chain must be deleted first.
TEST_P(ChainRepairContract, AnotherKindOfChainHasToBeRemoved) {
  Fill();
  DeleteChain("nat-output");
  AddChain("nat-output");
  ExpectRejected(Of({"nat-output"}), absl::StatusCode::kUnimplemented);
  Repair(Of({"nat-output"}, {"nat-output"}));
  ExpectAsBefore();
}

TEST_P(ChainRepairContract, ElementsOfTheSameTransactionFollow) {
  Fill();
  AddRule("services");
  Transaction transaction;
  transaction.RepairChains(Of({"services"}));
  transaction.Add(ServiceRow(family(), 2));
  transaction.Delete(ServiceRow(family(), 1));
  Commit(transaction);
  EXPECT_THAT(Read(proxy::kServiceIps), ::testing::ElementsAre(ServiceRow(family(), 2).Read()));
  EXPECT_EQ(Content(), content_);
}

TEST_P(ChainRepairContract, ChainsOfTheGivenSpecAreWritten) {
  Fill();
  const std::vector<uint32_t> timers = {proxy::kDefaultAffinitySeconds, 60};
  ChainRepair repair = Of({"stick", "stick-60", "recall-60", "stick-local-60", "recall-local-60"});
  repair.spec = std::make_shared<TableSpec>(proxy::MakeTable(family(), {}, timers));
  Repair(repair);
  const TableContent repaired = Content();
  Transaction whole;
  whole.DropTable(family());
  whole.CreateTable({.family = family(), .spec = repair.spec});
  Commit(whole);
  EXPECT_EQ(Content().chains, repaired.chains);
}

// A set of the spec is created again. The elements in the same transaction belong to the new set.
TEST_P(ChainRepairContract, ASetIsReplacedTogetherWithItsRules) {
  Fill();
  Transaction transaction;
  transaction.RepairChains(Of({"firewall-check"}, {}, {"firewall-sources"}));
  transaction.Add(SourceRow(family(), 2, 0x100, 0x1ff));
  Commit(transaction);
  EXPECT_EQ(Content().chains, content_.chains);
  EXPECT_EQ(Content().sets, content_.sets);
  EXPECT_THAT(Read(proxy::kFirewallSources),
              ::testing::ElementsAre(SourceRow(family(), 2, 0x100, 0x1ff).Read()));
  EXPECT_EQ(Read(proxy::kServiceIps).size(), 1u);
}

TEST_P(ChainRepairContract, WithoutATableItIsRejected) {
  ExpectRejected(Of({"services"}), absl::StatusCode::kNotFound);
  EXPECT_FALSE(HasTable(family()));
}

TEST_P(ChainRepairContract, WhatIsToBeRemovedMustBeThere) {
  Fill();
  AddRule("services");
  const TableContent damaged = Content();
  ExpectRejected(Of({"services"}, {"foreign"}), absl::StatusCode::kNotFound);
  ExpectRejected(Of({"services"}, {}, {"foreign-set"}), absl::StatusCode::kNotFound);
  EXPECT_EQ(Content(), damaged) << "all or nothing";
}

TEST_P(ChainRepairContract, AChainThatRulesLeadToCannotGo) {
  Fill();
  ExpectRejected(Of({}, {"mark-masq"}), absl::StatusCode::kUnavailable);
  ExpectAsBefore();
}

// The remaining tests need features that the fake kernel does not have.
class RealChainRepair : public ChainRepairContract {};
INSTANTIATE_TEST_SUITE_P(All, RealChainRepair,
                         ::testing::Combine(::testing::Values(KernelKind::kReal),
                                            ::testing::ValuesIn(kFamilies)),
                         KernelCaseName);

TEST_P(RealChainRepair, SetsThatAreMissingOrHaveAnotherTypeAreCreated) {
  Fill();
  Nft("flush chain %T firewall-check\ndelete set %T firewall-ips\n"
      "delete set %T firewall-sources\nadd set %T firewall-sources { type inet_service; }");
  ChainRepair repair = Of({"firewall-check"}, {}, {"firewall-sources"});
  repair.add_sets = {"firewall-ips"};
  Repair(repair);
  EXPECT_EQ(Content().chains, content_.chains);
  EXPECT_EQ(Content().sets, content_.sets);
}

TEST_P(RealChainRepair, FlushedReplacedAndReorderedRulesAndPoliciesComeBack) {
  Fill();
  Nft("flush chain %T dispatch\nreplace rule %T mark-masq handle " + Handles("mark-masq").front() +
      " accept\ninsert rule %T pick drop\nadd chain %T filter-forward { policy drop; }");
  Repair(Of({"dispatch", "mark-masq", "pick", "filter-forward"}));
  ExpectAsBefore();
}

TEST_P(RealChainRepair, ForeignChainsThatLeadToEachOtherGo) {
  Fill();
  Nft("add chain %T a\nadd chain %T b\nadd chain %T c\nadd rule %T services jump a\n"
      "add rule %T a jump b\n"
      "add map %T foreign-map { type inet_service : verdict; elements = { 80 : goto c }; }\n"
      "add rule %T b tcp dport vmap @foreign-map");
  Repair(Of({"services"}, {"a", "b", "c"}, {"foreign-map"}));
  ExpectAsBefore();
}

TEST_P(RealChainRepair, ForeignObjectsAndTableFlagsGoWithTheRulesThatUseThem) {
  Fill();
  Nft("add counter %T hits\nadd quota %T volume { over 1 mbytes }\nadd limit %T hits { rate "
      "1/second }\n"
      "add rule %T services counter name hits quota name volume\n"
      "add map %T foreign-map { type inet_service : counter; elements = { 80 : \"hits\" }; }\n"
      "add table %T { flags dormant; }");
  ASSERT_OK_AND_ASSIGN(const auto damaged, kernel_->ReadTable(family()));
  EXPECT_THAT(damaged->objects, SizeIs(3));
  ChainRepair repair = Of({"services"}, {}, {"foreign-map"});
  repair.remove_objects = damaged->objects;
  repair.clear_flags = true;
  Repair(repair);
  ExpectAsBefore();
}

TEST_P(RealChainRepair, AMissingSetIsRejected) {
  Fill();
  Nft("flush chain %T nat-postrouting\ndelete set %T hairpin-connections");
  ExpectRejected(Of({"nat-postrouting"}), absl::StatusCode::kNotFound);
}

// Tests of table content digests: equal for two creations of the same table, and different after
// any change by another process (S-345).

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
