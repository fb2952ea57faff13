#include "proxy/reconcile/schedule.h"

#include <gtest/gtest.h>

namespace svcmap::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ScheduleTest : public ::testing::Test {
 protected:
  const Schedule::Time start_ = Schedule::Time(seconds(1000));
  Schedule schedule_{{.first_retry = milliseconds(10),
                      .last_retry = milliseconds(1000),
                      .audit_cycle = seconds(100),
                      .audit_share = 0.01,
                      .first_audit = seconds(30),
                      .retry_rejected = seconds(60)},
                     start_};
};

TEST_F(ScheduleTest, WithoutWorkTheNextAuditIsNext) {
  EXPECT_EQ(schedule_.Next({}, start_), start_ + seconds(30));
  EXPECT_FALSE(schedule_.AuditDue(start_ + seconds(29)));
  EXPECT_TRUE(schedule_.AuditDue(start_ + seconds(30)));
}

TEST_F(ScheduleTest, ChangesAndLeftoversAreDueImmediately) {
  EXPECT_EQ(schedule_.Next({.changes = true}, start_), start_);
  EXPECT_EQ(schedule_.Next({.leftovers = true}, start_), start_);
}

TEST_F(ScheduleTest, AFailedCommitIsRetriedAfterADelayUntilOneSucceeds) {
  schedule_.CommitFailed(start_);
  EXPECT_EQ(schedule_.failed_commits(), 1);
  const Schedule::Time retry = schedule_.Next({.changes = true}, start_);
  EXPECT_GE(retry, start_ + milliseconds(5));
  EXPECT_LE(retry, start_ + milliseconds(10));
  EXPECT_FALSE(schedule_.CommitDue(retry - milliseconds(1)));
  EXPECT_TRUE(schedule_.CommitDue(retry));
  schedule_.CommitSucceeded();
  EXPECT_EQ(schedule_.failed_commits(), 0);
  EXPECT_TRUE(schedule_.CommitDue(start_));
}

TEST_F(ScheduleTest, RepairsDoNotWaitForTheRetryOfACommit) {
  for (int i = 0; i < 10; ++i) schedule_.CommitFailed(start_);
  EXPECT_GE(schedule_.Next({.changes = true}, start_), start_ + milliseconds(500));
  schedule_.RepairDone(start_, start_ + milliseconds(7));
  EXPECT_EQ(schedule_.Next({.changes = true, .suspects = true}, start_), start_ + milliseconds(14));
  EXPECT_EQ(schedule_.Next({.changes = true, .leftovers = true}, start_), start_);
}

TEST_F(ScheduleTest, ARepairIsFollowedByAPauseAsLongAsTheRepair) {
  schedule_.RepairDone(start_, start_ + milliseconds(7));
  EXPECT_EQ(schedule_.Next({.suspects = true}, start_), start_ + milliseconds(14));
  EXPECT_FALSE(schedule_.RepairDue(start_ + milliseconds(13)));
  EXPECT_TRUE(schedule_.RepairDue(start_ + milliseconds(14)));
}

TEST_F(ScheduleTest, ADisturbedRepairIsRepeatedSoonerThanAFailedOne) {
  for (int i = 0; i < 10; ++i) schedule_.RepairFailed(start_, /*disturbed=*/false);
  EXPECT_GE(schedule_.Next({.suspects = true}, start_), start_ + milliseconds(500));
  schedule_.RepairFailed(start_, /*disturbed=*/true);
  EXPECT_LE(schedule_.Next({.suspects = true}, start_), start_ + milliseconds(50));
}

// 25,600 rows are 101 portions, so one portion per 0.99 s completes the audit in 100 s.
TEST_F(ScheduleTest, AnAuditTakesOneCycleUnlessItWouldExceedItsShareOfTheProcessor) {
  schedule_.Audited(start_, 25600, milliseconds(1));
  EXPECT_EQ(schedule_.Next({}, start_), start_ + std::chrono::nanoseconds(seconds(100)) / 101);
  schedule_.Audited(start_, 25600, milliseconds(20));
  EXPECT_EQ(schedule_.Next({}, start_), start_ + seconds(2));
}

TEST_F(ScheduleTest, RejectedServicesAreRetriedBeforeTheNextAudit) {
  schedule_.RejectedRetried(start_ - seconds(50));
  EXPECT_EQ(schedule_.Next({.rejected = true}, start_), start_ + seconds(10));
  EXPECT_TRUE(schedule_.RejectedDue(start_ + seconds(10)));
}

}  // namespace
}  // namespace svcmap::proxy
