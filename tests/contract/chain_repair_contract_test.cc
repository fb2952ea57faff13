// Tests of the repair of chains in place: the repair undoes all changes by other processes without
// modifying any element, including affinity records (S-342, S-345).
#include "nft/expr/rule_builder.h"
#include "tests/contract/foreign_contract.h"

namespace svcmap::nft {
namespace {

using ::svcmap::testing::Address;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::RangeEnd;
using ::svcmap::testing::RangeStart;
using ::svcmap::testing::RecordRow;
using ::svcmap::testing::ServiceRow;
using ::svcmap::testing::SourceRow;
using ::testing::SizeIs;

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

}  // namespace
}  // namespace svcmap::nft
