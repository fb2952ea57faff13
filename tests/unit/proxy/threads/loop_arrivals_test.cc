// Long queues of batches: which of them a plan contains, and which batches wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

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

// A client that always has waiting batches must not make the node unhealthy (S-251).
TEST_F(LoopArrivalsTest, OnlyWaitingBatchesCountForTheHealthAfterACommit) {
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

}  // namespace
}  // namespace svcmap::proxy::test
