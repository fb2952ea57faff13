#include "proxy/reconcile/stages.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using std::chrono::milliseconds;

// All stages except the deletion of leftovers.
constexpr size_t kStagesOfChanges = static_cast<size_t>(Stage::kRemove);
constexpr Stage kOfATransaction[] = {Stage::kPlan, Stage::kSave, Stage::kKernel, Stage::kFollow};

TEST(StageTimesTest, EachStageHasItsOwnSumAndLongest) {
  StageTimes times;
  times.Add(Stage::kPlan, milliseconds(3));
  times.Add(Stage::kPlan, milliseconds(5));
  times.Add(Stage::kPlan, milliseconds(1));
  EXPECT_EQ(times.of(Stage::kPlan).count, 3u);
  EXPECT_EQ(times.of(Stage::kPlan).sum, milliseconds(9));
  EXPECT_EQ(times.of(Stage::kPlan).longest, milliseconds(5));
  EXPECT_EQ(times.of(Stage::kPlan).last, milliseconds(1));
  EXPECT_EQ(times.of(Stage::kKernel).count, 0u);
}

class LoopStagesTest : public LoopTest {
 protected:
  // Returns the stage times of the loop's completed turns.
  StageTimes Stages() {
    EXPECT_TRUE(loop_->Call([](Reconciler&) {}));
    return loop_->status().stages;
  }
  // Returns how often each stage was counted since `before`.
  std::vector<uint64_t> Counted(const StageTimes& before) {
    const StageTimes after = Stages();
    std::vector<uint64_t> counts;
    for (size_t i = 0; i < kStagesOfChanges; ++i) {
      const auto stage = static_cast<Stage>(i);
      counts.push_back(after.of(stage).count - before.of(stage).count);
    }
    return counts;
  }
  Answer SubmitReceived(std::vector<Change> changes) {
    return SubmitBatch(
        {.changes = std::move(changes), .received = std::chrono::steady_clock::now()});
  }
};

TEST_F(LoopStagesTest, MergedBatchesShareATransactionAndWaitInTheQueueMeanwhile) {
  StartServing();
  const StageTimes before = Stages();
  gate_.Close();
  Answer first = SubmitReceived(Numbered(1, 1));
  gate_.AwaitWaiter();
  const auto came = std::chrono::steady_clock::now();
  Answer second = SubmitReceived(Numbered(2, 1));
  Answer third = SubmitReceived(Numbered(3, 1));
  gate_.Open();
  Await(first);
  Await(third);
  const auto waited = std::chrono::steady_clock::now() - came;
  EXPECT_EQ(Counted(before), (std::vector<uint64_t>{3, 3, 3, 2, 2, 2, 2, 3}));
  EXPECT_LE(Stages().of(Stage::kQueue).last, waited);
}

TEST_F(LoopStagesTest, ARejectedTransactionCounts) {
  StartServing();
  const StageTimes before = Stages();
  SetFault(Fault::kReject);
  Answer answer = SubmitReceived(Numbered(1, 1));
  EXPECT_EQ(Await(answer).outcome, Outcome::kFailed);
  const StageTimes after = Stages();
  for (const Stage stage : kOfATransaction) {
    EXPECT_GE(after.of(stage).count - before.of(stage).count, uint64_t{4}) << StageName(stage);
  }
  SetFault(Fault::kNone);
}

}  // namespace
}  // namespace svcmap::proxy::test
