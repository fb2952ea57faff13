// Long queues of batches: which of them a plan contains, and which batches wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;

class LoopArrivalsTest : public LoopTest {
 protected:
  LoopArrivalsTest() { options_.max_elements = 30; }

  // Returns changes of ten Services, which have more elements than a plan.
  static std::vector<Change> Large(int first) {
    std::vector<Change> large;
    for (int i = first; i < first + 10; ++i) {
      for (Change& change : Numbered(i, 8)) large.push_back(std::move(change));
    }
    return large;
  }
  // Returns the revisions of the answers.
  static std::vector<uint64_t> Revisions(std::vector<Answer>& answers) {
    std::vector<uint64_t> revisions;
    for (Answer& answer : answers) revisions.push_back(Await(answer).revision);
    return revisions;
  }
};

// Each batch has about 14 elements: 8 endpoints, 4 for the address, and 1 for each of the two
// changes.
TEST_F(LoopArrivalsTest, ALongQueueIsPlannedInParts) {
  Hold();
  std::vector<Answer> answers;
  for (int i = 1; i <= 6; ++i) answers.push_back(Submit(Numbered(i, 8)));
  Release();
  EXPECT_THAT(Revisions(answers), ElementsAre(4, 4, 5, 5, 6, 6));
  ExpectConverged();
}

TEST_F(LoopArrivalsTest, BatchesOfAllClientsAreCommittedInTheOrderOfTheirArrival) {
  Hold();
  std::vector<Answer> answers;
  for (int i = 0; i < 3; ++i) {
    answers.push_back(Submit(Large(1 + 20 * i)));
    answers.push_back(SubmitOutOfBand(Large(11 + 20 * i)));
  }
  Release();
  EXPECT_THAT(Revisions(answers), ElementsAre(4, 5, 6, 7, 8, 9));
  ExpectConverged();
}

// The change is in a plan of its own, because a plan with changes outside of a snapshot contains
// all accepted changes.
TEST_F(LoopArrivalsTest, AChangeBehindASnapshotMakesItsPlansNoLarger) {
  Hold();
  std::vector<Answer> snapshot;
  snapshot.push_back(Submit({}, Batch::Mark::kSnapshotBegin));
  for (int i = 0; i < 3; ++i) snapshot.push_back(Submit(Large(1 + 10 * i)));
  snapshot.push_back(Submit({}, Batch::Mark::kSnapshotEnd));
  Answer other = SubmitOutOfBand(Numbered(50, 1));
  Release();
  const uint64_t last = Revisions(snapshot).back();
  EXPECT_EQ(Await(other).revision, last + 1);
  EXPECT_THAT(TakeSizes(), Each(Lt(60u)));
  ExpectConverged();
}

// All batches before the start of a session are accepted at once. Otherwise, a client that opens
// streams repeatedly could fill the queue faster than plans empty it.
TEST_F(LoopArrivalsTest, ANewSessionWaitsForOneCommit) {
  Hold();
  std::vector<Answer> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(Submit(Large(1 + 10 * i)));
  std::promise<std::optional<StateToken>> token;
  loop_->StartSession(std::nullopt, [&](std::optional<StateToken> held) { token.set_value(held); });
  Release();
  EXPECT_THAT(Revisions(answers), Each(4));
  auto held = token.get_future();
  ASSERT_EQ(held.wait_for(svcmap::testing::kHangLimit), std::future_status::ready);
  const std::optional<StateToken> started_with = held.get();
  ASSERT_TRUE(started_with.has_value());
  loop_->Call([&](Reconciler& reconciler) { EXPECT_EQ(started_with, reconciler.store().token()); });
}

TEST_F(LoopArrivalsTest, S251_AfterAFailedSyncTheOldestChangeCounts) {
  Start();
  SetFault(Fault::kReject);
  Await(Submit(Numbered(1, 1)));
  const auto first = loop_->status().oldest_unsynced;
  ASSERT_TRUE(first.has_value());
  Await(Submit(Numbered(2, 1)));
  EXPECT_EQ(loop_->status().oldest_unsynced, first);
  SetFault(Fault::kNone);
  EXPECT_EQ(Await(Submit(Numbered(3, 1))).outcome, Outcome::kCommitted);
  EXPECT_FALSE(loop_->status().oldest_unsynced);
}

TEST_F(LoopArrivalsTest, S251_AChangeThatArrivesDuringACommitStillWaits) {
  std::vector<std::optional<std::chrono::steady_clock::time_point>> oldest;
  options_.on_sync = [&](const SyncResult&, const LoopStatus& status) {
    oldest.push_back(status.oldest_unsynced);
  };
  Hold();
  const size_t syncs = oldest.size();
  const auto before = std::chrono::steady_clock::now();
  Answer answer = Submit(Numbered(1, 1));
  Release();
  Await(answer);
  loop_->Stop();
  ASSERT_GT(oldest.size(), syncs + 1);
  EXPECT_GE(oldest[syncs], before);
  EXPECT_FALSE(oldest.back());
}

// A client that always has waiting batches must not make the node unhealthy.
TEST_F(LoopArrivalsTest, S251_OnlyWaitingBatchesCountForTheHealthAfterACommit) {
  Hold();
  Answer first = Submit(Large(1));
  std::promise<LoopStatus> status;
  // The callback runs while the third batch waits.
  loop_->Submit({.changes = Large(11),
                 .done = [&](const BatchResult&) { status.set_value(loop_->status()); }});
  const auto before_third = std::chrono::steady_clock::now();
  Answer third = Submit(Large(21));
  Release();
  auto published = status.get_future();
  ASSERT_EQ(published.wait_for(svcmap::testing::kHangLimit), std::future_status::ready);
  const LoopStatus seen = published.get();
  EXPECT_GE(seen.oldest_unsynced, before_third);
  EXPECT_EQ(seen.waiting_changes.services, 10u);
  EXPECT_EQ(seen.waiting_changes.slices, 10u);
  EXPECT_EQ(Await(third).outcome, Outcome::kCommitted);
  EXPECT_FALSE(loop_->status().oldest_unsynced);
  EXPECT_EQ(loop_->status().waiting_changes.services, 0u);
}

// Batches must not stay unanswered in the queue.
TEST_F(LoopArrivalsTest, AllBatchesAreAcceptedWhileCommitsFail) {
  options_.patience = 1;
  Hold();
  SetFault(Fault::kReject);
  std::vector<Answer> answers;
  for (int i = 1; i <= 20; ++i) answers.push_back(Submit(Numbered(i, 8)));
  Release();
  for (Answer& answer : answers) EXPECT_EQ(Await(answer).outcome, Outcome::kFailed);
  SetFault(Fault::kNone);
  EXPECT_EQ(Await(Submit(Numbered(30, 1))).outcome, Outcome::kCommitted);
  ExpectConverged();
}

TEST_F(LoopArrivalsTest, TheLoopAnswersWaitingBatchesWhenItStops) {
  Hold();
  std::vector<Answer> answers;
  for (int i = 1; i <= 20; ++i) answers.push_back(Submit(Numbered(i, 8)));
  std::thread stopper([this] { loop_->Stop(); });
  gate_.Open();
  stopper.join();
  for (Answer& answer : answers) {
    ASSERT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    EXPECT_NO_THROW(answer.get()) << "dropped without an answer";
  }
}

// Tests of repairs in the loop: another process changes svcmapd's tables, a batch fails because of
// the damage, or the kernel sends no notification.
class LoopRepairTest : public LoopTest {
 protected:
  // Collects the results of all repairs, in order.
  class Repairs {
   public:
    void Add(const RepairResult& result) {
      const std::lock_guard lock(mutex_);
      all_.push_back(result);
      changed_.notify_all();
    }
    RepairResult Await(size_t number) {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(changed_.wait_for(lock, svcmap::testing::kHangLimit,
                                    [&] { return all_.size() >= number; }));
      return all_.size() >= number ? all_[number - 1] : RepairResult();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<RepairResult> all_;
  };

  LoopRepairTest() {
    options_.on_repair = [this](const RepairResult& result) { repairs_.Add(result); };
  }
  // Removes the first element of a set, as another process would. Returns the change that the
  // monitor would report.
  nft::ForeignChange Remove(SetIndex set) {
    nft::ForeignChange change;
    loop_->Call([&](Reconciler&) {
      const auto held = kernel_.ReadSet({Family::kIpv4, set});
      ASSERT_FALSE(held->empty());
      EXPECT_TRUE(kernel_.ForeignRemoveElement({Family::kIpv4, set}, held->front().key));
      change.elements.push_back({{Family::kIpv4, set}, held->front().key});
    });
    change.text = "1 element deleted from " + Tables()[0].sets[set].name;
    change.process = "nft (pid 7)";
    return change;
  }
  // Waits until the loop has verified all suspect elements. Each turn of the loop makes one check.
  LoopStatus AwaitVerified() {
    EXPECT_TRUE(testing::WaitUntil([&] {
      loop_->Call([](Reconciler&) {});
      return loop_->status().verified;
    }));
    return loop_->status();
  }

  Repairs repairs_;
};

// Each batch replaces a Service, so each turn of the loop deletes elements of the previous Service.
TEST_F(LoopRepairTest, ContinuousChangesDoNotDelayARepair) {
  constexpr int kBatches = 20'000;  // Takes much longer than a repair.
  std::atomic<int> batches = kBatches + 1;
  const auto submit_next = [&] {
    const int number = --batches;
    const std::string key = absl::StrCat("shop/s", number);
    const std::string previous = absl::StrCat("shop/s", number + 1);
    Submit({AService(key).At("10.96.254.1").Port(80), ASlice(key, key).Port(8080).Ready("10.0.0.1"),
            NoService(previous), NoSlice(previous)});
  };
  nft::ForeignChange change;
  options_.on_sync = [&](const SyncResult&, const LoopStatus& status) {
    if (batches == kBatches) loop_->Repair(change);  // After the first batch.
    if (batches <= kBatches && batches > 0 && status.repairs == 0) submit_next();
  };
  StartServing();
  change = Remove(kClusterIps);
  submit_next();
  repairs_.Await(1);
  EXPECT_GT(batches, 0);  // The repair did not wait for the end of the changes.
  loop_->Stop();          // Before the variables of on_sync are destroyed.
}

// An idle loop makes no turns, so the time of its last turn does not count.
TEST_F(LoopRepairTest, TheTablesWereVerifiedUntilTheForeignChangeWasReported) {
  StartServing();
  Await(Submit(Numbered(1, 3)));
  nft::ForeignChange change;
  change.sets.push_back({Family::kIpv4, kEndpoints});
  loop_->Call([&](Reconciler&) { kernel_.InterruptReads(1'000'000); });
  loop_->Call([](Reconciler&) {});
  ASSERT_TRUE(loop_->status().verified);
  const auto before = std::chrono::steady_clock::now();
  loop_->Repair(change);
  EXPECT_TRUE(testing::WaitUntil([&] { return !loop_->status().verified; }));
  const LoopStatus status = loop_->status();
  EXPECT_GE(status.last_verified, before);
  loop_->Call([&](Reconciler&) { kernel_.InterruptReads(0); });
  AwaitVerified();
}

TEST_F(LoopRepairTest, S251ABatchThatIsHeldBackIsNotUnsynced) {
  ASSERT_NO_FATAL_FAILURE(StartAfterPreviousRun());
  EXPECT_EQ(Await(Submit(Numbered(1, 3))).outcome, Outcome::kPending);
  loop_->Call([](Reconciler&) {});
  loop_->Call([](Reconciler&) {});
  EXPECT_FALSE(loop_->status().oldest_unsynced);
  EXPECT_FALSE(loop_->status().verified);
}

TEST_F(LoopRepairTest, S259HealthChecksAreReportedWhenTheyChangeAndNotOtherwise) {
  std::vector<HealthCheckChanges> reported;
  options_.on_sync = [&](const SyncResult& result, const LoopStatus&) {
    if (!result.health_checks.empty()) reported.push_back(result.health_checks);
  };
  StartServing();
  Change change = AService("shop/lb").At("10.96.0.9").Port(80);
  auto service = std::make_shared<Service>(*change.service);
  service->health_check_node_port = 31000;
  service->message += " with a health check";
  change.service = service;
  Await(Submit({change}));
  Await(Submit(Numbered(1, 3)));
  Await(Submit({AService("shop/lb").At("10.96.0.9").Port(80)}));
  loop_->Call([](Reconciler&) {});
  ASSERT_EQ(reported.size(), 2u);
  ASSERT_TRUE(reported[0][0].second);
  EXPECT_EQ(reported[0][0].second->port, 31000);
  EXPECT_FALSE(reported[1][0].second);
}

}  // namespace
}  // namespace svcmap::proxy::test
