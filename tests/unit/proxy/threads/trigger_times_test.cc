#include "proxy/reconcile/trigger_times.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using std::chrono::seconds;
using SystemClock = std::chrono::system_clock;

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

}  // namespace
}  // namespace svcmap::proxy::test
