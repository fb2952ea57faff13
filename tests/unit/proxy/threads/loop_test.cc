#include "proxy/reconcile/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/wait.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

constexpr size_t kMarkerElements = 4;

TEST_F(LoopTest, WhatComesDuringACommitIsMergedAndTheLatestWins) {
  StartServing();
  gate_.Close();
  Answer first = Submit(Numbered(1, 1));
  gate_.AwaitWaiter();
  Answer second = Submit(Numbered(1, 2)), third = Submit(Numbered(1, 3));
  gate_.Open();
  EXPECT_EQ(Await(first).revision, 3u);
  EXPECT_EQ(Await(second).revision, 4u);
  EXPECT_EQ(Await(third).revision, 4u);
  EXPECT_THAT(TakeSizes(), SizeIs(2));
  EXPECT_EQ(loop_->status().elements[0][kEndpoints], 3);
}

TEST_F(LoopTest, UntilTheSnapshotEndsAPreviousRunStaysInEffect) {
  ASSERT_NO_FATAL_FAILURE(StartAfterPreviousRun());
  const uint32_t generation = *kernel_.Generation();
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kPending);
  EXPECT_EQ(Await(Submit(Numbered(1, 2), Batch::Mark::kSnapshotBegin)).outcome, Outcome::kPending);
  EXPECT_EQ(Await(Submit(Numbered(2, 2))).outcome, Outcome::kPending);
  loop_->Repair({.structure = true});
  EXPECT_TRUE(loop_->Call([&](Reconciler&) { EXPECT_EQ(*kernel_.Generation(), generation); }));

  EXPECT_EQ(Await(Submit({}, Batch::Mark::kSnapshotEnd)).outcome, Outcome::kCommitted);
  ExpectConverged();
  EXPECT_EQ(loop_->status().services, 2u) << "shop/web was not named";
}

// A flush before the end of the snapshot must not make the loop treat the incomplete state as
// complete.
TEST_F(LoopTest, AFlushBeforeTheSnapshotEndsDoesNotMakeAPartOfItTheState) {
  std::vector<std::string> reported;
  options_.on_repair = [&](const RepairResult& result) {
    reported.push_back(result.damage + ": " + std::string(result.error.message()));
  };
  ASSERT_NO_FATAL_FAILURE(StartAfterPreviousRun());
  ASSERT_TRUE(kernel_.ForeignDropTable(Family::kIpv4));
  loop_->Repair({.table = true, .text = "table deleted"});
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kPending);
  EXPECT_TRUE(loop_->Call([](Reconciler&) {}));  // After the report.
  EXPECT_FALSE(loop_->status().complete);
  EXPECT_FALSE(*kernel_.HasTable(Family::kIpv4));
  EXPECT_THAT(reported, ElementsAre("table deleted: the desired state is unknown until a "
                                    "complete state is received"));
  Await(Submit({}, Batch::Mark::kSnapshotBegin));
  EXPECT_EQ(Await(Submit({Web()}, Batch::Mark::kSnapshotEnd)).outcome, Outcome::kCommitted);
  ExpectConverged();
}

// The transaction that replaces the rows of a previous run must not be split, because the first
// part would already replace all rows in use.
TEST_F(LoopTest, WhatReplacesAPreviousRunIsOneTransactionHoweverLarge) {
  options_.first_load_elements = 10;
  ASSERT_NO_FATAL_FAILURE(StartAfterPreviousRun());
  TakeSizes();
  Await(Submit(ManyNumbered(1, 30, 3), Batch::Mark::kSnapshotBegin));
  EXPECT_EQ(Await(Submit({}, Batch::Mark::kSnapshotEnd)).outcome, Outcome::kCommitted);
  EXPECT_EQ(TakeSizes().size(), 1u);
  ExpectConverged();
}

TEST_F(LoopTest, ABatchThatChangesNothingIsAnsweredAtOnce) {
  StartServing();
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kCommitted);
  TakeSizes();
  const BatchResult same = Await(Submit({Web()}));
  EXPECT_EQ(same.outcome, Outcome::kUnchanged);
  EXPECT_EQ(same.revision, 3u);
  EXPECT_EQ(Await(Submit({})).outcome, Outcome::kUnchanged);
  EXPECT_EQ(Await(Submit({ANode("n2", {"192.0.2.2"})})).outcome, Outcome::kUnchanged);
  EXPECT_THAT(TakeSizes(), IsEmpty());
}

TEST_F(LoopTest, ABatchThatTheKernelRejectsFailsAfterSomePatienceAndGoesInLater) {
  std::promise<void> recovered;
  bool failing = true;
  options_.patience = 3;
  options_.on_sync = [&](const SyncResult& result, const LoopStatus& status) {
    if (!failing || result.outcome != SyncResult::Outcome::kCommitted) return;
    if (status.failures == 0) return;
    failing = false;
    recovered.set_value();
  };
  StartServing();
  SetFault(Fault::kReject);
  const BatchResult result = Await(Submit({Web()}));
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(std::string(result.error.message()), HasSubstr("injected fault"));
  EXPECT_EQ(result.revision, 2u);
  LoopStatus status = loop_->status();
  EXPECT_GE(status.failures, 3u);
  EXPECT_EQ(status.phase, Phase::kRetrying);
  EXPECT_THAT(status.last_error, HasSubstr("injected fault"));

  SetFault(Fault::kNone);
  ASSERT_EQ(recovered.get_future().wait_for(svcmap::testing::kHangLimit),
            std::future_status::ready);
  ExpectConverged();
  status = loop_->status();
  EXPECT_EQ(status.phase, Phase::kServing);
  EXPECT_EQ(status.last_error, "");
  EXPECT_EQ(Await(Submit({Web().External("192.0.2.1")})).outcome, Outcome::kCommitted);
}

TEST_F(LoopTest, AShortFailureIsNotReportedToTheController) {
  options_.on_sync = [&](const SyncResult& result, const LoopStatus&) {
    if (result.outcome == SyncResult::Outcome::kFailed) SetFault(Fault::kNone);
  };
  StartServing();
  uint64_t failures = 0;
  for (const Fault fault : {Fault::kReject, Fault::kUnknownNotCommitted}) {
    SetFault(fault);
    EXPECT_EQ(Await(Submit(Numbered(1, static_cast<int>(++failures)))).outcome,
              Outcome::kCommitted);
    EXPECT_EQ(loop_->status().failures, failures);
  }
  SetFault(Fault::kUnknownCommitted);
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kCommitted);
  EXPECT_EQ(loop_->status().failures, failures);
  ExpectConverged();
}

TEST_F(LoopTest, AStateIsConfirmedByASessionThatHoldsTheSameAndNotByChanges) {
  StartServing();
  LoopStatus status = StatusAfterTurn(*loop_);
  EXPECT_TRUE(status.complete);
  EXPECT_FALSE(status.confirmed);
  std::promise<std::optional<StateToken>> held;
  loop_->StartSession(std::nullopt, [&](auto token) { held.set_value(token); });
  const std::optional<StateToken> token = held.get_future().get();
  EXPECT_FALSE(StatusAfterTurn(*loop_).confirmed);
  loop_->StartSession(token, [](auto) {});
  EXPECT_TRUE(StatusAfterTurn(*loop_).confirmed);
}

TEST_F(LoopTest, AChangeAfterAPartOfTheFirstSnapshotDoesNotCompleteTheState) {
  Start();
  Await(Submit({Web()}, Batch::Mark::kSnapshotBegin));
  loop_->StartSession(std::nullopt, [](auto) {});  // Abandons the snapshot.
  Await(SubmitBatch({.changes = Numbered(1, 1), .out_of_band = true}));
  EXPECT_EQ(StatusAfterTurn(*loop_).phase, Phase::kWaiting);
  EXPECT_FALSE(loop_->status().complete);
  Await(Submit({Web()}, Batch::Mark::kSnapshotBegin));
  Await(Submit({}, Batch::Mark::kSnapshotEnd));
  EXPECT_EQ(StatusAfterTurn(*loop_).phase, Phase::kServing);
  EXPECT_TRUE(loop_->status().complete);
}

// The first commit is blocked, so no turn has ended.
TEST_F(LoopTest, ThePhaseIsKnownBeforeTheFirstTurnEnds) {
  gate_.Close();
  loop_.emplace(reconciler_, options_);
  loop_->Start(Received::kStored);
  EXPECT_EQ(loop_->status().phase, Phase::kRewriting);
  gate_.Open();
  EXPECT_EQ(StatusAfterTurn(*loop_).phase, Phase::kServing);
}

TEST_F(LoopTest, StopFinishesTheCommitInFlightAndAnswersEverything) {
  StartServing();
  gate_.Close();
  Answer in_flight = Submit({Web()});
  gate_.AwaitWaiter();
  Answer waiting = Submit(Numbered(1, 1));
  std::thread stopper([this] { loop_->Stop(); });
  // Submit batches until the loop rejects a batch immediately, which means that the loop is
  // stopping.
  std::vector<Answer> probes;
  do {
    probes.push_back(Submit({}));
  } while (probes.back().wait_for(std::chrono::seconds(0)) != std::future_status::ready);
  gate_.Open();
  stopper.join();
  EXPECT_EQ(Await(in_flight).outcome, Outcome::kCommitted);
  EXPECT_EQ(Await(waiting).outcome, Outcome::kFailed);
  for (Answer& probe : probes) EXPECT_EQ(Await(probe).outcome, Outcome::kFailed);
  EXPECT_THAT(Contents(kernel_), SizeIs(4)) << "the rules stay";
}

TEST_F(LoopTest, ASnapshotIsLoadedInBoundedTransactions) {
  options_.first_load_elements = 50;
  Start();
  // In addition to its endpoints, each Service has a mapping and a clusterIP.
  constexpr int kEach = 8, kElements = kEach + 2;
  std::vector<Answer> answers;
  answers.push_back(Submit({}, Batch::Mark::kSnapshotBegin));
  for (int part = 0; part < 6; ++part) {
    answers.push_back(Submit(ManyNumbered(1 + part * 20, 20, kEach)));
  }
  answers.push_back(Submit({}, Batch::Mark::kSnapshotEnd));
  for (Answer& answer : answers) EXPECT_NE(Await(answer).outcome, Outcome::kFailed);
  const std::vector<size_t> sizes = TakeSizes();
  EXPECT_THAT(sizes, Each(Le(options_.first_load_elements + kElements + kMarkerElements)));
  EXPECT_GE(sizes.size(), 120u * kElements / (options_.first_load_elements + kElements));
  EXPECT_EQ(loop_->status().services, 120u);
  ExpectConverged();
}

TEST_F(LoopTest, ALaterSnapshotIsPlannedInSmallerTransactions) {
  options_.max_elements = 10;
  StartServing();
  TakeSizes();
  // In addition to its endpoints, each Service has a mapping and a clusterIP.
  constexpr int kEach = 3, kElements = kEach + 2;
  Await(Submit(ManyNumbered(1, 30, kEach), Batch::Mark::kSnapshotBegin));
  Await(Submit({}, Batch::Mark::kSnapshotEnd));
  const std::vector<size_t> sizes = TakeSizes();
  EXPECT_THAT(sizes, Each(Le(options_.max_elements + kElements + kMarkerElements)));
  EXPECT_GE(sizes.size(), 30u * kElements / (options_.max_elements + kElements));
  ExpectConverged();
}

TEST_F(LoopTest, ADeltaIsOneTransactionHoweverLarge) {
  options_.max_elements = 10;
  StartServing();
  EXPECT_EQ(Await(Submit(ManyNumbered(1, 30, 3))).outcome, Outcome::kCommitted);
  EXPECT_THAT(TakeSizes(), ElementsAre(30 * 5 + kMarkerElements));
}

TEST_F(LoopTest, AFindingGoesToTheBatchThatCausedIt) {
  StartServing();
  Await(Submit({Web()}));
  gate_.Close();
  Answer other = Submit(Numbered(11, 1));
  gate_.AwaitWaiter();
  Answer innocent = Submit(Numbered(12, 1));
  Answer guilty = Submit({AService("shop/z").Created(1).At("10.96.0.1").Port(80)});
  gate_.Open();
  EXPECT_THAT(Await(other).findings, IsEmpty());
  EXPECT_THAT(Await(innocent).findings, IsEmpty());
  const BatchResult result = Await(guilty);
  ASSERT_THAT(result.findings, SizeIs(1));
  EXPECT_EQ(result.findings[0].key, "shop/z");
}

// The Service that has the clusterIP is deleted, so the other Service receives the clusterIP
// although it does not change.
TEST_F(LoopTest, TheStatusHasOnlyFindingsThatApply) {
  StartServing();
  Await(Submit({Web(), AService("shop/z").Created(1).At("10.96.0.1").Port(80)}));
  ASSERT_THAT(*loop_->status().findings, SizeIs(1));
  EXPECT_EQ(loop_->status().findings->front().key, "shop/z");
  Await(Submit(Numbered(11, 1)));
  EXPECT_THAT(*loop_->status().findings, SizeIs(1));
  Await(Submit({NoService("shop/web")}));
  EXPECT_THAT(*loop_->status().findings, IsEmpty());
}

TEST_F(LoopTest, ManyThreadsMaySubmitCallAndAsk) {
  Start();
  constexpr int kThreads = 6, kBatches = 40;
  std::atomic<int> answered = 0, called = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kBatches; ++i) {
        Answer answer = Submit(Numbered(1 + t, i % 4));
        if (i % 10 == 3) loop_->Repair({.lost = true});
        if (i % 10 == 5) loop_->SetInterfaceAddresses(Ips({"192.0.2.1"}));
        loop_->Call(
            [&](Reconciler& reconciler) { called += reconciler.revision() < 1000000 ? 1 : 0; });
        if (loop_->status().failures == 0 && Await(answer).error.ok()) ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kThreads * kBatches);
  EXPECT_EQ(called, kThreads * kBatches);
  EXPECT_EQ(Await(Submit(Numbered(99, 1))).outcome, Outcome::kCommitted);
  ExpectConverged();
}

TEST_F(LoopTest, StoppingUnderLoadAnswersEveryBatchOnce) {
  Start();
  std::atomic<int> answers = 0;
  std::atomic<bool> go = false;
  constexpr int kThreads = 4, kBatches = 100;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kBatches; ++i) {
        if (i == kBatches / 2) {
          go = true;
          go.notify_all();
        }
        loop_->Submit(
            {.changes = Numbered(1 + t, i % 3), .done = [&](const BatchResult&) { ++answers; }});
        loop_->Call([](Reconciler&) {});
      }
    });
  }
  go.wait(false);
  loop_->Stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers, kThreads * kBatches);
}

// Packets that still stand in the rules delay the deletion of what they may reach, and nothing
// else.

// AwaitPackets() blocks while the gate `packets_` is closed.
class LoopPacketsTest : public LoopTest {
 protected:
  explicit LoopPacketsTest(std::shared_ptr<Gate> packets = std::make_shared<Gate>())
      : LoopTest({.node_name = "n1", .await_packets = [packets] { packets->Pass(); }}),
        packets_(std::move(packets)) {}
  ~LoopPacketsTest() override { packets_->Open(); }

  bool HasLeftovers() const { return loop_->status().leftovers > 0; }
  // Returns true if Services have exactly the rows that they need, without leftovers.
  bool Converged() {
    bool converged = false;
    EXPECT_TRUE(loop_->Call([&](Reconciler& reconciler) {
      converged = Contents(kernel_) == Additions(DesiredRows(reconciler));
    }));
    return converged;
  }

  const std::shared_ptr<Gate> packets_;
};

TEST_F(LoopPacketsTest, ChangesAreCommittedWhilePacketsStandInTheRules) {
  StartServing();
  Await(Submit(Numbered(1, 3)));
  packets_->Close();
  EXPECT_EQ(Await(Submit(Numbered(1, 0))).outcome, Outcome::kCommitted);
  packets_->AwaitWaiter();
  EXPECT_EQ(Await(Submit(Numbered(2, 3))).outcome, Outcome::kCommitted);
  EXPECT_EQ(Await(Submit(Numbered(2, 0))).outcome, Outcome::kCommitted);
  EXPECT_TRUE(HasLeftovers());
  EXPECT_FALSE(Converged());
  packets_->Open();
  AwaitRemovals();
  EXPECT_TRUE(Converged());
}

// The change adds a reject that is still to be deleted.
TEST_F(LoopPacketsTest, AChangeThatNeedsALeftoverWaits) {
  StartServing();
  Await(Submit(Numbered(1, 0)));
  packets_->Close();
  EXPECT_EQ(Await(Submit(Numbered(1, 1))).outcome, Outcome::kCommitted);
  packets_->AwaitWaiter();
  Answer back = Submit(Numbered(1, 0));
  EXPECT_TRUE(testing::WaitUntil([&] { return packets_->waiting() == 2; }));
  EXPECT_NE(back.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  packets_->Open();
  EXPECT_EQ(Await(back).outcome, Outcome::kCommitted);
  AwaitRemovals();
  EXPECT_TRUE(Converged());
}

TEST_F(LoopPacketsTest, StoppingDeletesLeftovers) {
  StartServing();
  Await(Submit(Numbered(1, 3)));
  packets_->Close();
  Await(Submit(Numbered(1, 0)));
  packets_->AwaitWaiter();
  packets_->Open();
  loop_->Stop();
  EXPECT_TRUE(reconciler_.leftovers().empty());
  EXPECT_EQ(Contents(kernel_), Additions(DesiredRows(reconciler_)));
}

}  // namespace
}  // namespace svcmap::proxy::test
