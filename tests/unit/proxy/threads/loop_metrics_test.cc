// Tests of the values that the loop provides for metrics (docs/specification.md, section 7).
#include <gmock/gmock.h>

#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

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

}  // namespace
}  // namespace svcmap::proxy::test
