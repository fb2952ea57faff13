// A loop on a fake kernel. Tests can block a commit. No thread sleeps for a fixed time. If a
// waiting thread is not woken up before a deadline, the test fails.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/reconcile/loop.h"
#include "tests/support/fake_kernel.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/all_rows.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy::test {

// A gate that blocks threads while the gate is closed.
class Gate {
 public:
  void Close() { Set(true); }
  void Open() { Set(false); }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, svcmap::testing::kHangLimit, [this] { return !closed_; }));
    --waiting_;
  }
  void AwaitWaiter() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, svcmap::testing::kHangLimit,
                                  [this] { return closed_ && waiting_ > 0; }));
  }
  // Returns the number of threads in Pass().
  int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  void Set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int waiting_ = 0;
};

using Answer = std::future<BatchResult>;

inline BatchResult Await(Answer& answer) {
  if (answer.wait_for(svcmap::testing::kHangLimit) != std::future_status::ready) {
    ADD_FAILURE() << "no answer";
    return {.error = absl::DeadlineExceededError("no answer")};
  }
  return answer.get();
}
inline BatchResult Await(Answer&& answer) { return Await(answer); }

class LoopTest : public ::testing::Test {
 protected:
  using Outcome = BatchResult::Outcome;
  using Fault = nft::FakeKernel::Fault;

  explicit LoopTest(const ReconcilerOptions& options = {.node_name = "n1"})
      : reconciler_(kernel_, options) {
    kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
      gate_.Pass();
      const std::lock_guard lock(mutex_);
      sizes_.push_back(transaction.element_count());
      return fault_;
    });
    options_.schedule.first_retry = std::chrono::milliseconds(1);
    options_.schedule.last_retry = std::chrono::milliseconds(1);
  }
  // Stops the loop before the destruction of the members that the fault hook uses.
  ~LoopTest() override {
    gate_.Open();
    loop_.reset();
  }

  // Starts the loop. Unless previous rules stay in effect, waits until the empty tables exist as
  // revision 1.
  void Start(Received received = Received::kNothing) {
    loop_.emplace(reconciler_, options_);
    loop_->Start(received);
    if (received == Received::kPreviousRules) return;
    EXPECT_EQ(Await(Submit({})).revision, 1u);
  }
  // Starts the loop with the rules of a previous run, whose state is unknown.
  void StartAfterPreviousRun() {
    Reconciler former(kernel_, {.node_name = "n1"});
    ASSERT_EQ(former.Sync(SIZE_MAX).outcome, SyncResult::Outcome::kCommitted);
    ASSERT_EQ(reconciler_.Adopt().value(), Received::kPreviousRules);
    Start(Received::kPreviousRules);
  }
  // Starts the loop with one programmed Service, so that later changes may be split into several
  // transactions.
  void StartServing() {
    Start();
    EXPECT_EQ(Await(Submit({AService("shop/first").At("10.96.255.1").Port(80)})).outcome,
              Outcome::kCommitted);
    TakeSizes();
  }
  Answer Submit(std::vector<Change> changes, Batch::Mark mark = Batch::Mark::kNone) {
    return SubmitBatch({.mark = mark, .changes = std::move(changes)});
  }
  Answer SubmitBatch(Batch batch) {
    auto promise = std::make_shared<std::promise<BatchResult>>();
    Answer answer = promise->get_future();
    batch.done = [promise](BatchResult result) { promise->set_value(std::move(result)); };
    loop_->Submit(std::move(batch));
    return answer;
  }
  Answer SubmitOutOfBand(std::vector<Change> changes) {
    return SubmitBatch({.changes = std::move(changes), .out_of_band = true});
  }
  // Blocks the loop in a commit. Batches that are submitted before Release() wait in the queue.
  void Hold();
  void Release() {
    gate_.Open();
    Await(blocker_);
  }
  void SetFault(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
  }
  // Returns the number of elements in each transaction since the last call.
  std::vector<size_t> TakeSizes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sizes_, {});
  }
  void AwaitRemovals() {
    EXPECT_TRUE(testing::WaitUntil([&] { return loop_->status().leftovers == 0; }));
  }
  // Return after the deletion of leftovers.
  Lines Stored() {
    AwaitRemovals();
    Lines lines;
    EXPECT_TRUE(loop_->Call([&](Reconciler&) { lines = Contents(kernel_); }));
    return lines;
  }
  void ExpectConverged() {
    AwaitRemovals();
    EXPECT_TRUE(loop_->Call([&](Reconciler& reconciler) {
      EXPECT_FALSE(reconciler.Pending());
      EXPECT_EQ(Contents(kernel_), Additions(DesiredRows(reconciler)));
    }));
  }

  Gate gate_;
  nft::FakeKernel kernel_{Tables()};
  Reconciler reconciler_;
  LoopOptions options_;
  std::optional<Loop> loop_;

 private:
  Answer blocker_;
  std::mutex mutex_;
  Fault fault_ = Fault::kNone;
  std::vector<size_t> sizes_;
};

// Returns changes that create the Service "shop/sN": endpoints, a mapping and a clusterIP.
inline std::vector<Change> Numbered(int number, int endpoints) {
  const std::string key = "shop/s" + std::to_string(number);
  const std::string high = std::to_string(number / 250), low = std::to_string(number % 250);
  ASlice slice(key + "-1", key);
  slice.Port(8080);
  for (int i = 1; i <= endpoints; ++i)
    slice.Ready("10." + high + "." + low + "." + std::to_string(i));
  return {AService(key).At("10.97." + high + "." + low).Port(80), slice};
}

// Returns the changes of `count` numbered Services.
inline std::vector<Change> ManyNumbered(int first, int count, int endpoints) {
  std::vector<Change> changes;
  for (int i = first; i < first + count; ++i) {
    for (Change& change : Numbered(i, endpoints)) changes.push_back(std::move(change));
  }
  return changes;
}

// Returns the loop's status after a complete turn. The loop publishes the status at the end of the
// first call's turn. The second call runs in a later turn.
inline LoopStatus StatusAfterTurn(Loop& loop) {
  for (int i = 0; i < 2; ++i) loop.Call([](Reconciler&) {});
  return loop.status();
}

inline void LoopTest::Hold() {
  StartServing();
  gate_.Close();
  blocker_ = Submit(Numbered(200, 1));
  gate_.AwaitWaiter();
}

}  // namespace svcmap::proxy::test
