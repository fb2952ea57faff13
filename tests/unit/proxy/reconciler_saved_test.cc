// Tests restarts with the state that the previous run saved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/reconciler_saved_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(SavedTest, WithNothingChangedNothingIsWritten) {
  Begin();
  Notify(World());
  Sync();
  Notify({Slice("shop/web", 5)});
  Sync();
  Note();
  const Lines before = Contents(kernel_);
  const uint32_t generation = *kernel_.Generation();

  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_EQ(saved_objects_, 5u);
  EXPECT_TRUE(reconciler_->Verified());
  EXPECT_EQ(Sync().outcome, Outcome::kNothing);
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(*kernel_.Generation(), generation);
  EXPECT_EQ(Contents(kernel_), before);
  ExpectConverged();

  Notify({Slice("shop/web", 6)});
  EXPECT_FALSE(Sync().recreated);
  ExpectConverged();
}

// The killed run had saved that another Service has the address, but had not committed it. Between
// two transactions, packets to the address would not be translated.
TEST_F(SavedTest, AnAddressThatMovedBeforeAKillMovesInOneTransaction) {
  Begin();
  Notify({AService("shop/old").At("10.96.0.5").Port(80), Slice("shop/old", 2)});
  Sync();
  Note();
  objects_ = {AService("shop/renamed").At("10.96.0.5").Port(80), Slice("shop/renamed", 2)};
  Begin();
  reconciler_->FindMovedAddresses();
  EXPECT_EQ(reconciler_->Sync(/*element_limit=*/1).outcome, Outcome::kCommitted);
  EXPECT_FALSE(reconciler_->Pending());
  ASSERT_OK_AND_ASSIGN(const auto addresses, kernel_.ReadSet({Family::kIpv4, kServiceIps}));
  EXPECT_THAT(addresses, SizeIs(1));
}

// A nodePort of another Service takes effect when no Service has the address and port (S-94).
TEST_F(SavedTest, AnAddressThatBecomesANodePortHasMoved) {
  Begin();
  Notify({AService("shop/old").At("10.96.0.5").External("192.0.2.7").Port(30080)});
  Sync();
  Note();
  const Change old = AService("shop/old").At("10.96.0.5").Port(30080);
  for (const bool moved : {false, true}) {
    objects_ = {old, AService("shop/new").At("10.96.0.6").Port(80).NodePort(moved ? 30080 : 30081)};
    Begin();
    reconciler_->FindMovedAddresses();
    EXPECT_EQ(reconciler_->store().addresses_moved(), moved);
  }
}

// The numbers of timeouts are used again, in the run that uses them up and in the next one.
TEST_F(SavedTest, TheTimeoutsAreThoseOfTheLastCommit) {
  Begin();
  Notify(World());
  Sync();
  for (uint32_t seconds = 100; seconds < 110 + kMaxTimers; ++seconds) {
    Notify({Web().Affinity(seconds)});
    EXPECT_THAT(Sync().findings, IsEmpty());
  }
  Note();
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_EQ(Sync().outcome, Outcome::kNothing);
  Notify({Web().Affinity(50)});
  const SyncResult result = Sync();
  EXPECT_FALSE(result.recreated);
  EXPECT_THAT(result.findings, IsEmpty());
  ExpectConverged();
}

// The log names only the leftovers of the last plan. The numbers of earlier leftovers are above all
// saved numbers here.
TEST_F(SavedTest, NumbersOfLeftoversOfAnEarlierPlanAreNotGivenToOthers) {
  Begin();
  Notify(World());
  Sync();
  Notify({AService("shop/newest").At("10.96.0.9").Port(80), Slice("shop/newest", 20, 9)});
  Sync();
  remove_leftovers_ = false;
  Notify({NoService("shop/newest"), NoSlice("shop/newest-1")});
  Sync();
  Notify({Slice("shop/b", 3, 2)});
  Sync();
  ASSERT_TRUE(reconciler_->HasLeftovers());

  Begin();
  Notify({AService("shop/other").At("10.96.0.10").Port(80), Slice("shop/other", 2, 10)});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  ASSERT_OK_AND_ASSIGN(const auto endpoints, kernel_.ReadSet({Family::kIpv4, kEndpoints}));
  std::map<std::vector<uint8_t>, std::set<uint8_t>> services_of_groups;
  for (const nft::Element& endpoint : endpoints) {
    services_of_groups[{endpoint.key.begin(), endpoint.key.end() - 4}].insert(endpoint.data[1]);
  }
  for (const auto& [group, services] : services_of_groups) EXPECT_THAT(services, SizeIs(1));
}

TEST_F(SavedTest, ACommitOfAnotherProcessMeansThatAllIsLookedAtWhileItServes) {
  Begin();
  Notify(World());
  Sync();
  Note();
  const auto held = kernel_.ReadSet({Family::kIpv4, kServiceIps});
  kernel_.ForeignRemoveElement({Family::kIpv4, kServiceIps}, held->front().key);

  EXPECT_EQ(Begin(), AdoptedState::kToVerify);
  EXPECT_FALSE(reconciler_->Verified());
  EXPECT_EQ(Sync().outcome, Outcome::kNothing);
  size_t elements = 0;
  while (reconciler_->HasSuspects()) elements += reconciler_->Repair().elements;
  EXPECT_EQ(elements, 1u);
  ExpectConverged();
  EXPECT_TRUE(reconciler_->Verified());
}

TEST_F(SavedTest, TablesThatAreGoneAreWrittenFromWhatIsSaved) {
  for (const bool both : {true, false}) {
    Begin();
    Notify(World());
    Sync();
    kernel_.ForeignDropTable(Family::kIpv4);
    if (both) kernel_.ForeignDropTable(Family::kIpv6);
    EXPECT_EQ(Begin(), AdoptedState::kSaved);
    EXPECT_TRUE(Sync().recreated);
    ExpectConverged();
  }
}

TEST_F(SavedTest, KilledBetweenCommitAndAnswerItKnowsWhatWasCommitted) {
  for (const Fault fault : {Fault::kNone, Fault::kUnknownCommitted, Fault::kReject}) {
    Begin();
    Notify(World());
    Sync();
    Note();
    // The log contains the attempt, but not its outcome, as after a crash during the kernel's
    // commit.
    Notify({Slice("shop/web", 7)});
    fault_ = fault;
    std::filesystem::path copy = folder_ + "-copy";
    std::filesystem::remove_all(copy);
    kernel_.SetFaultHook([&](const nft::Transaction& transaction) {
      sent_.push_back(transaction);
      std::filesystem::copy(folder_, copy);
      return fault_;
    });
    reconciler_->Sync(SIZE_MAX);
    fault_ = Fault::kNone;
    kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
      sent_.push_back(transaction);
      return fault_;
    });
    End();
    std::filesystem::remove_all(folder_);
    std::filesystem::rename(copy, folder_);

    const AdoptedState beginning = Begin();
    EXPECT_TRUE(beginning == AdoptedState::kTrusted || beginning == AdoptedState::kToVerify)
        << static_cast<int>(beginning) << " after " << static_cast<int>(fault);
    const SyncResult result = Sync();
    EXPECT_FALSE(result.recreated);
    EXPECT_EQ(result.outcome == Outcome::kCommitted, fault == Fault::kReject);
    while (reconciler_->HasSuspects()) {
      EXPECT_EQ(reconciler_->Repair().outcome, RepairResult::Outcome::kNothing);
    }
    ExpectConverged();
    nft::Transaction drop;
    for (const Family family : kFamilies) drop.DropTable(family);
    kernel_.Apply(drop);
    objects_.clear();
    End();
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(SavedTest, OtherRulesAreWrittenInPlaceAndNumbersStay) {
  Begin();
  Notify(World());
  Sync();
  const auto before = kernel_.ReadSet({Family::kIpv4, kAffinityEndpoints});
  options_.ruleset.detect_local = DetectLocal::kInterface;
  options_.ruleset.interface = "cni0";
  EXPECT_EQ(Begin(), AdoptedState::kUpgrade);
  EXPECT_TRUE(Sync().recreated);
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_THAT(sent_[0].creations(), IsEmpty()) << "only chains are written";
  EXPECT_FALSE(sent_[0].repairs().empty());
  EXPECT_EQ(kernel_.ReadSet({Family::kIpv4, kAffinityEndpoints}), before);
  ExpectConverged();
}

// The rules that reset TCP connections exist while a Service needs them, across restarts.
TEST_F(SavedTest, ResetRulesAreWrittenWithTheFirstServiceThatNeedsThem) {
  options_.ruleset.tcp_resets = TcpResets::kLoose;
  Begin();
  Notify(World());
  Sync();
  const auto rewritten = [&](std::optional<bool> reset) {
    sent_.clear();
    Notify({Web().ResetStaleTcp(reset)});
    Sync();
    Note();
    std::vector<std::string> chains;
    if (!sent_.empty() && !sent_[0].repairs().empty()) chains = sent_[0].repairs()[0].rewrite;
    return chains;
  };
  const std::vector<std::string> kChains = {"nodeport-endpoints-check", "service-endpoints-check"};
  EXPECT_THAT(rewritten(false), IsEmpty());
  EXPECT_EQ(rewritten(true), kChains);
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_THAT(rewritten(true), IsEmpty());
  EXPECT_EQ(rewritten(std::nullopt), kChains);
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_THAT(rewritten(std::nullopt), IsEmpty());
  ExpectConverged();
}

// The rules for endpoints that are their own destination exist while rows need them. Packets in the
// nat chains may need them after the commit that deletes the last row, so the next commit deletes
// them.
TEST_F(SavedTest, SelfEndpointRulesExistWhileRowsNeedThem) {
  Begin();
  Notify(World());
  Sync();
  const auto rewritten = [&](const std::string& address) {
    sent_.clear();
    Notify({ASlice("shop/web-7", "shop/web").Port(80).Ready(address)});
    Sync();
    Note();
    std::vector<std::string> chains;
    if (!sent_.empty() && !sent_[0].repairs().empty()) chains = sent_[0].repairs()[0].rewrite;
    return chains;
  };
  const std::vector<std::string> kChains = {"dnat-prerouting", "filter-output"};
  Notify({Web().External("192.0.2.7")});
  EXPECT_THAT(rewritten("10.0.7.1"), IsEmpty());
  EXPECT_EQ(rewritten("192.0.2.7"), kChains);
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_THAT(rewritten("192.0.2.7"), IsEmpty());
  EXPECT_THAT(rewritten("10.0.7.1"), IsEmpty()) << "deletes the row";
  EXPECT_EQ(rewritten("10.0.7.2"), kChains);
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);

  EXPECT_EQ(rewritten("192.0.2.7"), kChains);
  EXPECT_THAT(rewritten("10.0.7.1"), IsEmpty());
  EXPECT_EQ(Begin(), AdoptedState::kUpgrade) << "the rules are still there";
  EXPECT_EQ(rewritten("10.0.7.1"), kChains);
  ExpectConverged();
}

TEST_F(SavedTest, AFileThatIsOlderThanTheKernelIsNotServedFrom) {
  Begin();
  Notify(World());
  Sync();
  End();
  std::filesystem::copy(folder_, folder_ + "-old");
  Begin();
  Notify({Slice("shop/web", 8)});
  Sync();
  End();
  std::filesystem::remove_all(folder_);
  std::filesystem::rename(folder_ + "-old", folder_);

  const Lines before = Contents(kernel_);
  EXPECT_EQ(Begin(), AdoptedState::kUnknown);
  EXPECT_EQ(Contents(kernel_), before);
  // Later runs must not use the old content of the state file either.
  End();
  EXPECT_EQ(Begin(), AdoptedState::kUnknown);
  objects_.clear();
  Notify({Web(), Slice("shop/web", 3)});
  Sync();
  Note();
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_EQ(saved_objects_, 2u);
}

// A downgrade before the new version has received the state. The new version could not use the
// saved rows, so it left the tables as they were.
TEST_F(SavedTest, ARunThatCannotUseTheStateLeavesItToTheNextRun) {
  Begin();
  Notify(World());
  Sync();
  Note();
  End();
  const Lines before = Contents(kernel_);
  SetMarkers(+1);  // The saved rows do not match.
  EXPECT_EQ(Begin(), AdoptedState::kUnknown);
  End();
  SetMarkers(-1);
  ASSERT_EQ(Contents(kernel_), before);
  Begin();
  EXPECT_GT(saved_objects_, 0u);
  Sync();
  ExpectConverged();
  EXPECT_EQ(Contents(kernel_), before);
}

// The agent is killed after the commit that makes elements unreachable and before their deletion.
TEST_F(SavedTest, LeftoversOfAKilledRunAreDeletedByTheNextRun) {
  ASSERT_NO_FATAL_FAILURE(CommitWithoutRemoval({NoService("shop/b"), Slice("shop/web", 1)}));
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_TRUE(reconciler_->HasSuspects());
  CheckAllRows();
}

TEST_F(SavedTest, NumbersOfLeftoversAreNotUsedByTheRunAfterNext) {
  ASSERT_NO_FATAL_FAILURE(CommitWithoutRemoval({NoService("shop/web")}));
  Begin();
  Notify({AService("shop/c").At("10.96.0.8").Port(80), Slice("shop/c", 3, 8)});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  EXPECT_EQ(Begin(), AdoptedState::kToVerify);
  Notify({AService("shop/new").At("10.96.0.9").Port(80).Affinity(90), Slice("shop/new", 3, 9),
          AService("shop/d").At("10.96.0.10").Port(80), Slice("shop/d", 3, 10)});
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  CheckAllRows();
}

// The kernel rejects the deletion, and the agent is killed before it has checked the rows.
TEST_F(SavedTest, LeftoversThatCouldNotBeDeletedAreDeletedByTheNextRun) {
  ASSERT_NO_FATAL_FAILURE(CommitWithoutRemoval({NoService("shop/b"), Slice("shop/web", 1)}));
  fault_ = Fault::kReject;
  EXPECT_FALSE(reconciler_->RemoveLeftovers().error.ok());
  fault_ = Fault::kNone;
  Begin();
  EXPECT_TRUE(reconciler_->HasSuspects());
  CheckAllRows();
}

// The agent is killed after the deletion and before the log contains the outcome.
TEST_F(SavedTest, DeletedLeftoversOfAKilledRunAreNotMissed) {
  ASSERT_NO_FATAL_FAILURE(CommitWithoutRemoval({NoService("shop/b")}));
  const nft::Transaction removal = DeletionsOf(*reconciler_);
  EXPECT_OK(kernel_.Apply(removal).error);
  EXPECT_EQ(Begin(), AdoptedState::kToVerify);
  CheckAllRows();
}

TEST_F(SavedTest, AServiceThatIsAmongTheSavedRowsButNotTheObjectsGoes) {
  Begin();
  Notify(World());
  Sync();
  Note();
  std::erase_if(objects_, [](const Change& change) { return change.key == "shop/b"; });
  EXPECT_EQ(Begin(), AdoptedState::kTrusted);
  EXPECT_EQ(Sync().outcome, Outcome::kCommitted);
  ExpectConverged();
}

}  // namespace
}  // namespace svcmap::proxy::test
