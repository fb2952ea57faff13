// Tests of the values that the loop provides for metrics (docs/specification.md, section 7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proxy/reconcile/stages.h"
#include "proxy/reconcile/trigger_times.h"
#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Pair;
using SystemClock = std::chrono::system_clock;
using std::chrono::milliseconds;

class LoopMetricsTest : public LoopTest {
 protected:
  ChangeCounts Waiting() { return loop_->status().pending_changes; }
};

TEST_F(LoopMetricsTest, S274_S276_ChangesWaitUntilTheyAreInTheKernel) {
  Start();
  SetFault(Fault::kReject);
  Await(Submit({Web(), WebSlice().Ready("10.1.0.1")}));
  EXPECT_EQ(Waiting().services, 1u);
  EXPECT_EQ(Waiting().slices, 1u);
  SetFault(Fault::kNone);
  Await(Submit({WebSlice().Ready("10.1.0.2")}));
  EXPECT_EQ(Waiting().services, 0u);
  EXPECT_EQ(Waiting().slices, 0u);
}

// The metrics count a change as pending until its commit ends.
TEST_F(LoopMetricsTest, S274_ChangesWaitWhileTheirCommitIsOnItsWay) {
  Start();
  gate_.Close();
  Answer answer = Submit({Web(), WebSlice().Ready("10.1.0.1")});
  gate_.AwaitWaiter();
  EXPECT_EQ(Waiting().services, 1u);
  EXPECT_EQ(Waiting().slices, 1u);
  gate_.Open();
  Await(answer);
  EXPECT_EQ(Waiting().slices, 0u);
}

TEST_F(LoopMetricsTest, S274_WhatTheRulesOfAPreviousRunHoldUpWaits) {
  Start(Received::kPreviousRules);
  EXPECT_EQ(Await(Submit({Web()})).outcome, Outcome::kPending);
  EXPECT_EQ(Waiting().services, 1u);
}

TEST_F(LoopMetricsTest, S273_TheStartAndEachBatchAreNoted) {
  const auto before = std::chrono::system_clock::now();
  Start(Received::kPreviousRules);
  const auto start = loop_->status().last_queued;
  EXPECT_GE(start, before);
  Await(Submit({Web()}));
  EXPECT_GT(loop_->status().last_queued, start);
}

TEST_F(LoopMetricsTest, S269_S271_AnAttemptIsMeasuredAsAWholeAlsoWhenItFails) {
  std::vector<SyncResult> results;
  options_.on_sync = [&](const SyncResult& result, const LoopStatus&) {
    results.push_back(result);
  };
  options_.patience = 1;
  StartServing();
  results.clear();
  SetFault(Fault::kReject);
  Await(Submit({Web()}));
  SetFault(Fault::kNone);
  Await(Submit({WebSlice().Ready("10.1.0.1")}));
  loop_->Stop();
  ASSERT_GE(results.size(), 2u);
  for (const SyncResult& result : results) {
    EXPECT_GE(result.whole, result.duration);
    EXPECT_GT(result.whole.count(), 0);
  }
  EXPECT_EQ(results.front().outcome, SyncResult::Outcome::kFailed);
}

TEST_F(LoopMetricsTest, S269_WhereNothingIsToDoNothingIsMeasured) {
  std::vector<std::chrono::nanoseconds> measured;
  StartServing();
  loop_->Stop();
  options_.on_sync = [&](const SyncResult& result, const LoopStatus&) {
    measured.push_back(result.whole);
  };
  loop_.emplace(reconciler_, options_);
  loop_->Start(Received::kNothing);
  Await(Submit({AService("shop/first").At("10.96.255.1").Port(80)}));
  loop_->Stop();
  EXPECT_THAT(measured, ElementsAre(std::chrono::nanoseconds(0)));
}

TEST_F(LoopMetricsTest, S278_S346_EachTimeIsReportedWithTheFamilyOfItsSlice) {
  std::vector<std::pair<Family, bool>> reported;
  options_.on_sync = [&](const SyncResult& result, const LoopStatus&) {
    for (const auto& [family, took] : result.programmed) {
      reported.emplace_back(family, took > std::chrono::nanoseconds(0));
    }
  };
  Start();
  const auto triggered = [](Change change) {
    change.triggered = std::chrono::system_clock::now();
    return change;
  };
  const ASlice v6 = ASlice("shop/web-6", "shop/web", Family::kIpv6).Port(8080).Ready("fd00::1");
  Await(Submit({Web(), triggered(WebSlice().Ready("10.1.0.1")), triggered(v6)}));
  Await(Submit({triggered(NoSlice("shop/web-6"))}));
  loop_->Stop();
  EXPECT_THAT(reported, ElementsAre(Pair(Family::kIpv4, true), Pair(Family::kIpv6, true),
                                    Pair(Family::kIpv6, true)));
}

// Tests the metrics for one Service port with a nodePort and three endpoints.
class NoLocalEndpointsTest : public LoopTest {
 protected:
  void SetUp() override {
    StartServing();
    loop_->SetInterfaceAddresses(Ips({"192.0.2.1"}));
    Await(Submit({ANode("n1", {"192.0.2.1"})}));
  }
  // Returns the counts of Service ports without local endpoints, for internal and external traffic
  // policy.
  std::pair<int64_t, int64_t> With(AService service, const std::vector<Change>& slices) {
    Await(Submit({service.Port(80).NodePort(30080)}));
    Await(Submit(slices));
    const NoLocalEndpoints counts = loop_->status().no_local_endpoints;
    EXPECT_EQ(counts.internal[1] + counts.external[1], 0) << "it has no IPv6 address";
    return {counts.internal[0], counts.external[0]};
  }
  static std::pair<int64_t, int64_t> Counts(int64_t internal, int64_t external) {
    return {internal, external};
  }

  const AService service_ = AService("shop/web").At("10.96.0.1");
  const std::vector<Change> remote_ = {
      WebSlice().Ready("10.1.0.1").Ready("10.1.0.2").Ready("10.1.0.3")};
  const std::vector<Change> one_local_ = {
      WebSlice().Ready("10.1.0.1").Ready("10.1.0.2").Local("10.1.0.3")};
};

TEST_F(NoLocalEndpointsTest, S279_S287_EachPolicyWithoutALocalEndpointCounts) {
  AService internal = service_, external = service_, both = service_;
  internal.InternalLocal();
  external.ExternalLocal();
  both.InternalLocal().ExternalLocal();
  EXPECT_EQ(With(service_, remote_), Counts(0, 0));
  EXPECT_EQ(With(internal, remote_), Counts(1, 0));
  EXPECT_EQ(With(external, remote_), Counts(0, 1));
  EXPECT_EQ(With(both, remote_), Counts(1, 1));
  EXPECT_EQ(With(both, one_local_), Counts(0, 0));
  EXPECT_EQ(With(both, remote_), Counts(1, 1));
  EXPECT_EQ(With(both, {NoSlice("shop/web-1")}), Counts(0, 0)) << "there are none at all";
  EXPECT_EQ(With(both, remote_), Counts(1, 1));
  Await(Submit({NoService("shop/web")}));
  EXPECT_EQ(loop_->status().no_local_endpoints.internal[0], 0);
  EXPECT_EQ(loop_->status().no_local_endpoints.external[0], 0);
}

class TriggerTimesTest : public ::testing::Test {
 protected:
  static constexpr TriggerTimes::Time kStart{seconds(1'000'000)};
  TriggerTimes times_{kStart};
};

TEST_F(TriggerTimesTest, S346AChangeCountsOnceItIsInTheKernel) {
  times_.Add(1, kStart + seconds(1), Family::kIpv4);
  times_.Add(1, kStart + seconds(2), Family::kIpv4);
  times_.Add(2, kStart + seconds(3), Family::kIpv4);
  times_.Programmed(1, kStart + seconds(5));
  EXPECT_EQ(times_.latency().count, 0u);
  times_.Programmed(2, kStart + seconds(5));
  EXPECT_EQ(times_.latency().count, 2u);
  EXPECT_EQ(times_.latency().sum, seconds(7));
  EXPECT_EQ(times_.latency().last, seconds(3));
  EXPECT_EQ(times_.latency().longest, seconds(4));
  times_.Programmed(9, kStart + seconds(13));
  EXPECT_EQ(times_.latency().count, 3u);
  EXPECT_EQ(times_.latency().longest, seconds(10));
}

TEST_F(TriggerTimesTest, S346WhatWasBeforeTheStartDoesNotCount) {
  times_.Add(1, kStart, Family::kIpv4);
  times_.Programmed(2, kStart + seconds(1));
  EXPECT_EQ(times_.latency().count, 0u);
}

TEST_F(TriggerTimesTest, AClockThatIsAheadGivesNoNegativeTime) {
  times_.Add(1, kStart + seconds(9), Family::kIpv4);
  times_.Programmed(2, kStart + seconds(1));
  EXPECT_EQ(times_.latency().count, 1u);
  EXPECT_EQ(times_.latency().sum, seconds(0));
}

TEST_F(TriggerTimesTest, ThereAreNoMoreThanSoMany) {
  for (size_t i = 0; i < TriggerTimes::kMost + 5; ++i)
    times_.Add(1, kStart + seconds(1), Family::kIpv4);
  times_.Programmed(2, kStart + seconds(2));
  EXPECT_EQ(times_.latency().count, TriggerTimes::kMost);
}

class ProgrammingLatencyTest : public LoopTest {
 protected:
  static Change Triggered(Change change) {
    change.triggered = SystemClock::now();
    return change;
  }
  uint64_t Measured() { return loop_->status().programming_latency.count; }
};

TEST_F(ProgrammingLatencyTest, S346OneTimeForEachChangeThatChangedSomething) {
  Start();
  const Change slice = Triggered(WebSlice().Ready("10.1.0.1"));
  EXPECT_EQ(Await(SubmitBatch({.changes = {Web(), slice}})).outcome, Outcome::kCommitted);
  EXPECT_EQ(Measured(), 1u);
  EXPECT_EQ(Await(SubmitBatch({.changes = {slice}})).outcome, Outcome::kUnchanged);
  EXPECT_EQ(Measured(), 1u);
}

// After a failed commit, svcmapd keeps the measurement, whereas kube-proxy loses the measurement.
TEST_F(ProgrammingLatencyTest, S346AFailedCommitLosesNone) {
  Start();
  SetFault(Fault::kReject);
  const Change slice = Triggered(WebSlice().Ready("10.1.0.1"));
  EXPECT_EQ(Await(SubmitBatch({.changes = {Web(), slice}})).outcome, Outcome::kFailed);
  EXPECT_EQ(Measured(), 0u);
  SetFault(Fault::kNone);
  EXPECT_EQ(Await(SubmitBatch({.changes = {Web()}})).error, absl::OkStatus());
  EXPECT_EQ(Measured(), 1u);
}

TEST_F(ProgrammingLatencyTest, S356_DeletingASliceKeepsTheTimesOfItsService) {
  Start();
  SetFault(Fault::kReject);
  const Change slice = Triggered(WebSlice().Ready("10.1.0.1"));
  EXPECT_EQ(Await(SubmitBatch({.changes = {Web(), slice}})).outcome, Outcome::kFailed);
  SetFault(Fault::kNone);
  EXPECT_EQ(Await(SubmitBatch({.changes = {NoSlice(slice.key)}})).error, absl::OkStatus());
  EXPECT_EQ(Measured(), 1u);
}

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
