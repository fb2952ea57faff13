#include "proxy/health/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proxy/reconcile/schedule.h"
#include "proxy/reconcile/states.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::Eq;

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

constexpr uint16_t kHealthPort = 32000;

AService CheckedWeb() {
  return AService("shop/web")
      .At("10.96.0.1")
      .Port(80, "http")
      .ExternalLocal()
      .HealthCheck(kHealthPort);
}
ASlice CheckedSlice() { return ASlice("shop/web-1", "shop/web").Port(8080, "http"); }

class HealthCheckTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }
  std::optional<HealthCheck> Check(const std::string& key = "shop/web") {
    return HealthCheckOf(store_.Find(key), store_.claims());
  }
  // Returns the reported number of local IPv4 endpoints.
  uint32_t Count(const std::vector<Change>& changes) {
    store_ = Store();
    Apply(changes);
    return Check()->local_endpoints[0];
  }

  Store store_;
};

TEST_F(HealthCheckTest, S13_S259_AServiceHasOneInEachOfItsFamilies) {
  Apply({CheckedWeb(), CheckedSlice()});
  EXPECT_EQ(Check(), (HealthCheck{kHealthPort, {true, false}, {0, 0}}));
  Apply({CheckedWeb().At("fd00:96::1"), CheckedSlice().Local("10.0.0.1"),
         ASlice("shop/web-6", "shop/web", Family::kIpv6)
             .Port(8080, "http")
             .Local("fd00::1")
             .Local("fd00::2")});
  EXPECT_EQ(Check(), (HealthCheck{kHealthPort, {true, true}, {1, 2}}));
}

TEST_F(HealthCheckTest, S13_NothingElseHasOne) {
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "unknown";
  Apply({CheckedSlice().Local("10.0.0.1")});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "only slices";
  Apply({AService("shop/web").At("10.96.0.1").Port(80)});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "no healthCheckNodePort";
  Apply({CheckedWeb().NotProxied()});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "not proxied";
  Apply({AService("shop/web").Port(80).HealthCheck(kHealthPort)});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "no clusterIP";
}

TEST_F(HealthCheckTest, S262_OnlyReadyEndpointsOnThisNodeCount) {
  EXPECT_EQ(Count({CheckedWeb(), CheckedSlice()
                                     .Local("10.0.0.1")
                                     .Local("10.0.0.6")
                                     .Weight(0)
                                     .Ready("10.0.0.2")
                                     .Endpoint("10.0.0.3", kServingOnly, true)
                                     .Endpoint("10.0.0.4", kServingTerminating, true)
                                     .Endpoint("10.0.0.5", kDown, true)}),
            1u);
  EXPECT_EQ(Count({CheckedWeb(), CheckedSlice().Endpoint("10.0.0.1", kReadyTerminating, true)}), 1u)
      << "ready is taken as it is said (S-24)";
}

TEST_F(HealthCheckTest, S262_AnAddressCountsOnceOverAllPortsAndSlices) {
  const AService service = CheckedWeb().Port(443, "https");
  EXPECT_EQ(Count({service, ASlice("shop/web-1", "shop/web")
                                .Port(8080, "http")
                                .Port(8443, "https")
                                .Local("10.0.0.1")
                                .Local("10.0.0.2")}),
            2u);
  EXPECT_EQ(Count({service, CheckedSlice().Local("10.0.0.1"),
                   ASlice("shop/web-2", "shop/web").Port(8443, "https").Local("10.0.0.1")}),
            1u);
  EXPECT_EQ(Count({service, CheckedSlice().Local("10.0.0.1"),
                   ASlice("shop/web-2", "shop/web").Port(8443, "https").Local("10.0.0.3")}),
            2u);
}

TEST_F(HealthCheckTest, S262_PortsThatAreNotTheServicesDoNotCount) {
  EXPECT_EQ(
      Count({CheckedWeb(), ASlice("shop/web-1", "shop/web").Port(8080, "other").Local("10.0.0.1")}),
      0u);
  EXPECT_EQ(
      Count(
          {CheckedWeb(),
           ASlice("shop/web-1", "shop/web").Port(8080, "http", Protocol::kUdp).Local("10.0.0.1")}),
      0u);
}

TEST_F(HealthCheckTest, S16_OnePortCanBelongToAServiceInEachFamily) {
  Apply({CheckedWeb(), AService("shop/six").At("fd00:96::2").HealthCheck(kHealthPort),
         AService("shop/zboth").At("10.96.0.3").At("fd00:96::3").HealthCheck(kHealthPort)});
  EXPECT_EQ(Check("shop/web"), (HealthCheck{kHealthPort, {true, false}, {0, 0}}));
  EXPECT_EQ(Check("shop/six"), (HealthCheck{kHealthPort, {false, true}, {0, 0}}));
  EXPECT_FALSE(Check("shop/zboth"));
  Apply({NoService("shop/six")});
  EXPECT_EQ(Check("shop/zboth"), (HealthCheck{kHealthPort, {false, true}, {0, 0}}));
}

// As in kube-proxy, if a nodePort and the health check port have the same number, the nodePort
// receives the packets to the node's addresses.
TEST_F(HealthCheckTest, ANodePortOfTheSameNumberIsNoRival) {
  Apply({CheckedWeb(), AService("shop/other").At("10.96.0.2").Port(80).NodePort(kHealthPort)});
  EXPECT_TRUE(Check());
  EXPECT_EQ(store_.claims().Owner(NodePortClaim(Family::kIpv4, Protocol::kTcp, kHealthPort))->key,
            "shop/other");
}

TEST(StatesTest, ThePhaseIsTheFirstThatMatches) {
  struct Case {
    Situation situation;
    Phase phase;
  };
  const Situation serving = {.received = Received::kComplete,
                             .programmed = Received::kComplete,
                             .tables = TableState::kCurrent};
  const auto with = [&](auto change) {
    Situation situation = serving;
    change(situation);
    return situation;
  };
  const Case cases[] = {
      {serving, Phase::kServing},
      {with([](Situation& s) { s.programmed = Received::kStored; }), Phase::kServing},
      {with([](Situation& s) { s.programmed = Received::kNothing; }), Phase::kLoading},
      {with([](Situation& s) { s.received = s.programmed = Received::kNothing; }), Phase::kWaiting},
      {with([](Situation& s) { s.suspects = true; }), Phase::kRepairing},
      {with([](Situation& s) { s.tables = TableState::kUnverified; }), Phase::kRewriting},
      {with([](Situation& s) {
         s.received = s.programmed = Received::kNothing;
         s.tables = TableState::kUnverified;
       }),
       Phase::kWaiting},
      {with([](Situation& s) {
         s.tables = TableState::kUnverified;
         s.suspects = true;
       }),
       Phase::kRewriting},
      {with([](Situation& s) {
         s.plan_failed = true;
         s.tables = TableState::kUnverified;
       }),
       Phase::kRetrying},
      {with([](Situation& s) {
         s.received = Received::kPreviousRules;
         s.plan_failed = true;
       }),
       Phase::kHolding},
  };
  for (const Case& c : cases) EXPECT_EQ(PhaseOf(c.situation), c.phase);
}

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
