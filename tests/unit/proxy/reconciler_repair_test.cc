// Tests that svcmapd detects and repairs changes of its tables by other processes, and does not
// write unchanged elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Family kV4 = Family::kIpv4;

class RepairTest : public ReconcilerTest {
 protected:
  void SetUp() override {
    Settle({Web(), Slice("shop/web", 3), AService("shop/b").At("10.96.0.2").Port(80),
            Slice("shop/b", 2, 2), AServiceCidr("c", {"10.96.0.0/16"})});
    before_ = Contents(kernel_);
  }

  // Repairs the tables until no element is suspect. Returns the number of checks that found damage.
  int ApplyRepair() {
    int found = 0;
    for (int look = 0; reconciler_.WorkLeft().suspects; ++look) {
      EXPECT_LT(look, 100) << "does not end";
      if (look == 100) break;
      const RepairResult result = reconciler_.Repair();
      EXPECT_OK(result.error);
      if (result.outcome != RepairResult::Outcome::kNothing) ++found;
      if (result.outcome == RepairResult::Outcome::kRewrite) EXPECT_TRUE(Sync().recreated);
    }
    return found;
  }
  void ExpectRepaired() {
    EXPECT_FALSE(reconciler_.Pending());
    EXPECT_FALSE(reconciler_.WorkLeft().suspects);
    EXPECT_EQ(Contents(kernel_), before_);
    ExpectConverged();
  }
  // Removes the first element of a set. Returns the change that the monitor would report.
  nft::ForeignChange Remove(SetIndex set) {
    const auto held = kernel_.ReadSet({kV4, set});
    EXPECT_FALSE(held->empty());
    EXPECT_TRUE(kernel_.ForeignRemoveElement({kV4, set}, held->front().key));
    nft::ForeignChange change;
    change.elements.push_back({{kV4, set}, held->front().key});
    return change;
  }
  // Another process deletes both tables, and the reconciler finds it.
  void DropTables() {
    for (const Family family : kFamilies) EXPECT_TRUE(kernel_.ForeignDropTable(family));
    nft::ForeignChange change;
    change.table = true;
    FindMissingTable(change);
  }
  void FindMissingTable(const nft::ForeignChange& change) {
    reconciler_.MarkSuspect(change);
    EXPECT_EQ(reconciler_.Repair().outcome, RepairResult::Outcome::kRewrite);
    sent_.clear();
  }
  static nft::ForeignChange Structure() {
    nft::ForeignChange change;
    change.structure = true;
    return change;
  }
  static nft::ForeignChange Lost() {
    nft::ForeignChange change;
    change.lost = true;
    return change;
  }

  Lines before_;
};

TEST_F(RepairTest, ARepairBeforeAPlanIsReported) {
  const auto ranged = [](const std::string& range) {
    return AService("shop/b")
        .At("10.96.0.2")
        .Port(80)
        .LoadBalancer("203.0.113.1")
        .SourceRange(range);
  };
  Settle({ranged("10.0.0.0/24")});
  const auto held = kernel_.ReadSet({kV4, kFirewallSources});
  ASSERT_THAT(*held, SizeIs(1));
  reconciler_.MarkSuspect({.sets = {{kV4, kFirewallSources}}});
  EXPECT_TRUE(kernel_.ForeignRemoveElement({kV4, kFirewallSources}, held->front().key));
  Apply({Web().LoadBalancer("203.0.113.2").SourceRange("10.0.0.0/24")});
  const SyncResult result = Sync();
  EXPECT_EQ(result.outcome, Outcome::kCommitted);
  ASSERT_THAT(result.repairs, SizeIs(1));
  EXPECT_EQ(result.repairs[0].outcome, RepairResult::Outcome::kRewrite);
  EXPECT_EQ(result.repairs[0].elements, 1u);
  EXPECT_THAT(Sync().repairs, IsEmpty());
}

TEST_F(RepairTest, AnElementThatWasRemovedIsPutBackAndNothingElseIsWritten) {
  for (const SetIndex set : {kServiceIps, kEndpoints, kClusterIps, kMarker}) {
    SCOPED_TRACE(set);
    sent_.clear();
    reconciler_.MarkSuspect(Remove(set));
    EXPECT_TRUE(reconciler_.WorkLeft().suspects);
    EXPECT_EQ(ApplyRepair(), 1);
    ExpectRepaired();
    ASSERT_THAT(sent_, SizeIs(1));
    EXPECT_EQ(sent_[0].element_count(), 1u);
  }
}

// The notifications of the added elements were lost. Before Linux 6.16, the number of elements does
// not show that they exist.
TEST_F(RepairTest, LostElementsOfOthersAreFoundWithAndWithoutCounts) {
  constexpr uint8_t kAddress[] = {10, 96, 7, 7};
  const nft::ElementView address = {{kV4, kClusterIps}, kAddress, {}, {}};
  const Row endpoint = EndpointRow({kV4, kEndpoints}, 77, 0, {*IpAddress::Parse("192.0.2.66"), 80});
  for (const bool counts : {true, false}) {
    SCOPED_TRACE(counts);
    if (!counts) kernel_.HideCounts();
    ASSERT_TRUE(kernel_.ForeignAddElement(address));
    ASSERT_TRUE(kernel_.ForeignAddElement(endpoint.view()));
    reconciler_.MarkSuspect(Lost());
    EXPECT_EQ(ApplyRepair(), 2) << "one repair for each set";
    ExpectRepaired();
  }
}

// A rewrite that cannot read the tables would delete them.
TEST_F(RepairTest, ASetThatCannotBeReadIsCheckedAgainAndLeadsToNoRewrite) {
  kernel_.HideCounts();
  kernel_.InterruptReads(100, nft::SetRef{kV4, kServiceIps});
  reconciler_.MarkSuspect(Lost());
  int failed = 0;
  for (int look = 0; reconciler_.WorkLeft().suspects; ++look) {
    ASSERT_LT(look, 1000) << "does not end";
    const RepairResult result = reconciler_.Repair();
    failed += result.outcome == RepairResult::Outcome::kFailed ? 1 : 0;
    ASSERT_NE(result.outcome, RepairResult::Outcome::kRewrite);
  }
  EXPECT_EQ(failed, 100);
  EXPECT_THAT(sent_, IsEmpty());
  ExpectRepaired();
}

// If each loss of notifications started a new audit, the last rows would never be checked.
TEST_F(RepairTest, AuditsReachAllRowsAlthoughNotificationsAreLostRepeatedly) {
  constexpr int kEndpoints = 2000;
  Settle({Slice("shop/b", kEndpoints), AService("shop/z").At("10.96.0.9").Port(80),
          ASlice("shop/z-1", "shop/z").Port(8080).Ready("10.9.0.1")});
  before_ = Contents(kernel_);
  const auto key = ServiceIpKey(*IpAddress::Parse("10.96.0.9"), Protocol::kTcp, 80);
  // The number of elements does not show the change.
  const auto found = kernel_.ReadElement({kV4, kServiceIps}, key.bytes());
  ASSERT_TRUE(found.ok() && *found);
  std::vector<uint8_t> data = (*found)->data;
  data.back() ^= 1;
  ASSERT_TRUE(kernel_.ForeignRemoveElement({kV4, kServiceIps}, key.bytes()));
  ASSERT_TRUE(
      kernel_.ForeignAddElement({{kV4, kServiceIps}, key.bytes(), data, (*found)->comment}));
  bool repaired = false;
  for (int losses = 0; losses < 100 && !repaired; ++losses) {
    reconciler_.MarkSuspect(Lost());
    for (int look = 0; look < 4; ++look) {
      repaired |= reconciler_.Repair().outcome == RepairResult::Outcome::kRepaired;
    }
  }
  EXPECT_TRUE(repaired);
  ApplyRepair();
  ExpectRepaired();
}

// The kernel checks bounds for overlaps, and may reject the addition of a missing bound.
TEST_F(RepairTest, ASetWithBoundsIsReplaced) {
  WriteRecord();
  const nft::SetRef cidrs = {kV4, kServiceCidrs};
  reconciler_.MarkSuspect({.sets = {cidrs}});
  EXPECT_EQ(ApplyRepair(), 0);
  EXPECT_THAT(sent_, IsEmpty());
  const auto held = kernel_.ReadSet(cidrs);
  ASSERT_TRUE(kernel_.ForeignRemoveElement(cidrs, held->front().key, held->front().interval_end));
  reconciler_.MarkSuspect({.sets = {cidrs}});
  EXPECT_EQ(ApplyRepair(), 1);
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_THAT(sent_[0].repairs()[0].remove_sets, ::testing::ElementsAre("service-cidrs"));
  ExpectRepaired();
  EXPECT_TRUE(HasRecord());
}

TEST_F(RepairTest, ForeignObjectsAndTableFlagsAreDeletedAndNothingElseIsWritten) {
  ASSERT_TRUE(kernel_.ForeignAddObject(kV4, "hits"));
  ASSERT_TRUE(kernel_.ForeignSetFlags(kV4, 1));
  reconciler_.MarkSuspect(Structure());
  EXPECT_EQ(ApplyRepair(), 1);
  ExpectRepaired();
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_EQ(sent_[0].element_count(), 0u);
  EXPECT_THAT(sent_[0].repairs()[0].rewrite, IsEmpty());
  EXPECT_THAT(kernel_.ReadTable(kV4)->value().objects, IsEmpty());
  EXPECT_EQ(kernel_.ReadTable(kV4)->value().flags, 0u);
}

TEST_F(RepairTest, RulesAndChainsAreRewrittenWithoutElementsAndRecordsStay) {
  WriteRecord();
  const std::string chain = Tables()[0].rules.front().chain;
  ASSERT_TRUE(kernel_.ForeignDeleteRule(kV4, chain));
  reconciler_.MarkSuspect(Structure());
  EXPECT_EQ(ApplyRepair(), 1);
  ExpectRepaired();

  ASSERT_TRUE(kernel_.ForeignAddRule(kV4, chain));
  ASSERT_TRUE(kernel_.ForeignAddChain(kV4, "theirs"));
  ASSERT_TRUE(kernel_.ForeignAddSet(kV4, "their-set"));
  reconciler_.MarkSuspect(Structure());
  EXPECT_EQ(ApplyRepair(), 1);
  ExpectRepaired();
  EXPECT_TRUE(HasRecord());
  for (const nft::Transaction& transaction : sent_) {
    EXPECT_EQ(transaction.element_count(), 0u);
    EXPECT_THAT(transaction.creations(), IsEmpty());
  }
}

// The first Services work again before all Services are written.
TEST_F(RepairTest, DeletedTablesAreWrittenInBoundedCommits) {
  constexpr size_t kEndpoints = 12000;
  Settle({Slice("shop/web", kEndpoints)});
  for (const bool fails : {false, true}) {
    DropTables();
    kernel_.SetFaultHook([this, fault = fails](const nft::Transaction& transaction) mutable {
      sent_.push_back(transaction);
      if (!fault || sent_.size() != 2) return Fault::kNone;
      fault = false;
      return Fault::kReject;
    });
    if (fails) {
      EXPECT_EQ(Sync().outcome, Outcome::kFailed);
      EXPECT_TRUE(reconciler_.Pending());
      sent_.clear();
    }
    const SyncResult result = Sync();
    EXPECT_EQ(result.outcome, Outcome::kCommitted);
    EXPECT_TRUE(result.recreated);
    if (!fails) {
      EXPECT_THAT(sent_.front().creations(), SizeIs(2));
      EXPECT_EQ(sent_.size(), kEndpoints / kElementsPerCommit + 1);
      for (const nft::Transaction& transaction : sent_) {
        EXPECT_LE(transaction.element_count(), kElementsPerCommit);
      }
    }
    ExpectConverged();
    EXPECT_FALSE(reconciler_.WorkLeft().suspects);
  }
}

TEST_F(RepairTest, ManyMissingElementsAreAddedInBoundedCommits) {
  constexpr int kEndpoints = 12000;
  Settle({Slice("shop/web", kEndpoints)});
  const auto elements = kernel_.ReadSet({kV4, SetIndex::kEndpoints});
  for (const nft::Element& element : *elements) {
    ASSERT_TRUE(kernel_.ForeignRemoveElement({kV4, SetIndex::kEndpoints}, element.key));
  }
  nft::ForeignChange change;
  change.sets.push_back({kV4, SetIndex::kEndpoints});
  reconciler_.MarkSuspect(change);
  EXPECT_EQ(ApplyRepair(), 1);
  EXPECT_EQ(sent_.size(), (elements->size() - 1) / kElementsPerCommit + 1);
  for (const nft::Transaction& transaction : sent_) {
    EXPECT_LE(transaction.element_count(), kElementsPerCommit);
  }
  ExpectConverged();
}

// The kernel still contains the rows that were added before a plan that failed. If the next plan
// used their group for other endpoints, the kernel would reject it, or packets of clients with an
// affinity record could reach other endpoints.
TEST_F(RepairTest, AGroupOfAPlanThatFailedIsNotUsedBeforeItsRowsAreDeleted) {
  constexpr int kEndpoints = kMaxElementsTogether;
  const AService added = AService("shop/added").At("10.96.0.3").Port(80);
  Apply({added, Slice("shop/added", kEndpoints)});
  kernel_.SetFaultHook([](const nft::Transaction& transaction) {
    bool switches = false;
    transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
      switches |= element.set.set == kServiceIps;
    });
    return switches ? Fault::kReject : Fault::kNone;
  });
  EXPECT_EQ(Sync().outcome, Outcome::kFailed);
  kernel_.SetFaultHook(nullptr);
  ASSERT_TRUE(reconciler_.WorkLeft().suspects);

  Apply({Slice("shop/added", kEndpoints, 7)});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  ApplyRepair();
  ExpectConverged();
}

TEST_F(RepairTest, AnAuditFindsUnreportedChanges) {
  Remove(kServiceIps);
  const Row endpoint = EndpointRow({kV4, kEndpoints}, 77, 0, {*IpAddress::Parse("192.0.2.66"), 80});
  ASSERT_TRUE(kernel_.ForeignAddElement(endpoint.view()));
  while (StatusOf(reconciler_).audits == 0) EXPECT_OK(reconciler_.Repair().error);
  EXPECT_GE(ApplyRepair(), 1);  // The audit detects this damage only in its final step.
  ExpectRepaired();
}

TEST_F(RepairTest, AnAuditReadsEachRowOnceAndWritesNothingWhereAllIsRight) {
  sent_.clear();
  int looks = 0;
  for (; StatusOf(reconciler_).audits < 1; ++looks) {
    EXPECT_EQ(reconciler_.Repair().outcome, RepairResult::Outcome::kNothing);
  }
  EXPECT_EQ(looks, 2);  // One step reads the rows, and the final step marks sets as suspect.
  EXPECT_EQ(ApplyRepair(), 0);
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(RepairTest, ABatchThatMeetsAForeignChangeGoesThroughAfterARepair) {
  Remove(kServiceIps);
  Remove(kEndpoints);
  Apply({NoService("shop/web"), NoService("shop/b")});
  EXPECT_EQ(Sync().outcome, Outcome::kFailed);
  EXPECT_TRUE(reconciler_.WorkLeft().suspects);
  EXPECT_GE(ApplyRepair(), 1);
  const SyncResult result = Sync();
  EXPECT_EQ(result.outcome, Outcome::kCommitted);
  EXPECT_FALSE(result.recreated);
  ExpectConverged();
}

TEST_F(RepairTest, ARepairThatFailsIsRetriedAndInTheEndEverythingIsWritten) {
  reconciler_.MarkSuspect(Remove(kServiceIps));
  fault_ = Fault::kReject;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reconciler_.Repair().outcome, RepairResult::Outcome::kFailed) << i;
  }
  EXPECT_TRUE(reconciler_.Pending());
  EXPECT_TRUE(Sync().recreated);
  ExpectRepaired();
}

}  // namespace
}  // namespace svcmap::proxy::test
