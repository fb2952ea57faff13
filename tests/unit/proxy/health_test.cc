#include "proxy/health/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace svcmap::proxy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::Eq;
using ::testing::Optional;

const steady_clock::time_point kNow{seconds(1000)};
const std::chrono::system_clock::time_point kSynced{seconds(1772359199)};

// Returns the facts of a healthy proxy.
LoopFacts Facts() {
  return {.oldest_unsynced = std::nullopt,
          .last_synced = kSynced,
          .state_complete = true,
          .verified = true,
          .watching = true,
          .node_eligible = true};
}

TEST(MakeHealthTest, S251_AChangeMayWaitForTwiceTheSyncPeriod) {
  const struct {
    const char* name;
    std::optional<steady_clock::duration> age;
    bool healthy;
  } cases[] = {
      {"nothing waits: healthy for ever", std::nullopt, true},
      {"just told", seconds(0), true},
      {"nearly", milliseconds(59999), true},
      {"twice the period", seconds(60), false},
      {"longer", seconds(3600), false},
  };
  for (const auto& c : cases) {
    LoopFacts facts = Facts();
    if (c.age) facts.oldest_unsynced = kNow - *c.age;
    const Health health = MakeHealth(facts, kNow);
    EXPECT_EQ(health.live, c.healthy) << c.name;
    EXPECT_EQ(health.last_synced, kSynced) << c.name;
  }
}

TEST(MakeHealthTest, S251_TheSyncPeriodIsASetting) {
  LoopFacts facts = Facts();
  facts.oldest_unsynced = kNow - seconds(2);
  EXPECT_TRUE(MakeHealth(facts, kNow, milliseconds(1001)).live);
  EXPECT_FALSE(MakeHealth(facts, kNow, seconds(1)).live);
}

TEST(MakeHealthTest, ReadyOnlyWithTheWholeStateVerifiedAndWatched) {
  EXPECT_TRUE(MakeHealth(Facts(), kNow).ready);
  EXPECT_EQ(MakeHealth(Facts(), kNow).reason, "");
  const struct {
    bool LoopFacts::*fact;
    const char* reason;
  } cases[] = {
      {&LoopFacts::state_complete, "complete state not received or not programmed yet"},
      {&LoopFacts::verified, "kernel tables not verified yet"},
      {&LoopFacts::watching, "changes to the tables by other processes are not detected"},
  };
  for (const auto& c : cases) {
    LoopFacts facts = Facts();
    facts.*c.fact = false;
    const Health health = MakeHealth(facts, kNow);
    EXPECT_FALSE(health.ready);
    EXPECT_EQ(health.reason, c.reason);
    EXPECT_TRUE(health.live) << "it does what it can";
  }
}

TEST(MakeHealthTest, S252_S253_EligibilityIsNoMatterOfBeingAlive) {
  LoopFacts facts = Facts();
  facts.node_eligible = false;
  facts.node_name = "n1";
  const Health health = MakeHealth(facts, kNow);
  EXPECT_FALSE(health.node_eligible);
  EXPECT_TRUE(health.live);
  EXPECT_TRUE(health.ready);
  EXPECT_EQ(health.reason, "Node n1 unknown: no controller has sent the Node object of this node");
  facts.node_known = true;
  EXPECT_EQ(MakeHealth(facts, kNow).reason,
            "Node n1 is being deleted or has the taint ToBeDeletedByClusterAutoscaler");
}

TEST(SyncClockTest, S251_TheOldestChangeCounts) {
  SyncClock clock;
  EXPECT_THAT(clock.oldest_unsynced(), Eq(std::nullopt));
  clock.Received(kNow);
  clock.Received(kNow + seconds(1));
  EXPECT_THAT(clock.oldest_unsynced(), Optional(kNow));
  clock.Started();
  EXPECT_THAT(clock.oldest_unsynced(), Optional(kNow)) << "it is not in the kernel yet";
  clock.Synced();
  EXPECT_THAT(clock.oldest_unsynced(), Eq(std::nullopt));
}

TEST(SyncClockTest, S251_WhatIsReportedDuringASyncWaitsForTheNextOne) {
  SyncClock clock;
  clock.Received(kNow);
  clock.Started();
  clock.Received(kNow + seconds(1));
  EXPECT_THAT(clock.oldest_unsynced(), Optional(kNow));
  clock.Synced();
  EXPECT_THAT(clock.oldest_unsynced(), Optional(kNow + seconds(1)));
}

// A controller that always has changes waiting must not make a healthy node unhealthy.
TEST(SyncClockTest, S251_AfterASyncTheOldestChangeThatStillWaitsCounts) {
  SyncClock clock;
  clock.Received(kNow);
  clock.Received(kNow + seconds(1));
  clock.Started();
  clock.Synced(kNow + seconds(1));
  EXPECT_THAT(clock.oldest_unsynced(), Optional(kNow + seconds(1)));
  clock.Received(kNow + seconds(2));
  clock.Started();
  clock.Synced();
  EXPECT_THAT(clock.oldest_unsynced(), Eq(std::nullopt));
}

TEST(SyncClockTest, S251_AFailedSyncLeavesTheClockRunning) {
  SyncClock clock;
  clock.Received(kNow);
  clock.Started();
  clock.Received(kNow + seconds(1));
  clock.Started();  // The next commit attempt starts.
  EXPECT_THAT(clock.oldest_unsynced(), Optional(kNow));
  clock.Synced();
  EXPECT_THAT(clock.oldest_unsynced(), Eq(std::nullopt));
}

}  // namespace
}  // namespace svcmap::proxy
