// Tests of repairs in the loop: another process changes svcmapd's tables, a batch fails because of
// the damage, or the kernel sends no notification.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/wait.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

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
