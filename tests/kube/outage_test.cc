// Tests of API server faults. Traffic continues, existing objects are not pruned, and later changes
// arrive.
#include <functional>

#include "tests/kube/bridge_world.h"
#include "tests/netns/listing.h"

namespace svcmap::testing {
namespace {

using What = Fault::What;
using Where = Fault::Where;

struct Outage {
  const char* name;
  std::function<void(FakeApiServer&)> begin;
  std::function<void(FakeApiServer&)> end = [](FakeApiServer& server) { server.Heal(); };
};

void PrintTo(const Outage& outage, std::ostream* out) { *out << outage.name; }

// Returns a function that injects `fault`, deletes old events, so that clients must list again, and
// ends all watches.
std::function<void(FakeApiServer&)> FailingLists(const Fault& fault) {
  return [fault](FakeApiServer& server) {
    server.Fail(fault);
    server.Put({AServiceCidr("more", {"10.97.0.0/16"}), AService("away/unseen").ClusterIp("None")});
    server.ForgetEvents();
    server.EndWatches();
  };
}

// ReflectorTest tests the responses to each kind of fault.
const Outage kOutages[] = {
    {"ConnectionsAreRefused", [](FakeApiServer& server) { server.Stop(); },
     [](FakeApiServer& server) { EXPECT_OK(server.StartAgain()); }},
    {"ItComesBackWithoutItsEvents", [](FakeApiServer& server) { server.Stop(); },
     [](FakeApiServer& server) {
       server.ForgetEvents();
       EXPECT_OK(server.StartAgain());
     }},
    {"WatchesEnd", [](FakeApiServer& server) { server.EndWatches(); }},
    {"Unavailable", FailingLists({.code = 503})},
    {"EventsAreTruncated", [](FakeApiServer& server) { server.Fail({.what = What::kTruncate}); }},
    {"ListsHang", FailingLists({.what = What::kHang, .where = Where::kLists})},
};

class OutageTest : public BridgeTest, public ::testing::WithParamInterface<Outage> {};
INSTANTIATE_TEST_SUITE_P(, OutageTest, ::testing::ValuesIn(kOutages),
                         [](const ::testing::TestParamInfo<Outage>& info) {
                           return info.param.name;
                         });

TEST_P(OutageTest, TrafficGoesOnAndChangesArriveAfterwards) {
  server().Put(Objects{ExternalWeb("shop/web", kWeb), Web("shop/other", kOther)} +
               WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/other", {&pod_b()}));
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kOther, "pod-b"));
  ASSERT_OK(Eventually("four watches", [&] { return server().open_watches() == 4; }));
  ASSERT_OK_AND_ASSIGN(auto traffic, StartTraffic(kWeb, "pod-a"));

  GetParam().begin(server());
  server().Put(Objects{Web("shop/third", kThird)} + WebSlices("shop/third", {&pod_b()}) +
               WebSlices("shop/other", {&pod_a()}));
  ASSERT_OK(traffic->Go(300));
  GetParam().end(server());

  EXPECT_OK(Until(kThird, "pod-b"));
  EXPECT_OK(Until(kOther, "pod-a"));
  server().Remove({ServiceRef("shop/third")});  // The API server works again.
  EXPECT_OK(Until(kThird, ""));
  ASSERT_OK(traffic->Go(50));
  EXPECT_OK(traffic->Stop().Check());
  EXPECT_EQ(Answering(kExternalIp), "pod-a");
  ASSERT_OK(UntilTheAgentHasAll());
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

TEST_F(BridgeTest, S1_S83_ClustersBefore131KnowNoServiceCidrsAndSelectNoHeadlessServices) {
  server().BeBefore131();
  server().Put(Objects{Web("shop/web", kWeb), AService("shop/none").ClusterIp("None")} +
               WebSlices("shop/web", {&pod_a()}));
  ASSERT_OK(StartBridge());
  EXPECT_OK(Until(kWeb, "pod-a"));
  EXPECT_EQ(Answering(kUnallocated), "outside");
}

TEST_F(BridgeTest, WhatIsGoneIsRemovedWithTheLastPageOfTheNewListAndNotBefore) {
  server().Put(Objects{Web("shop/gone", kOther), Web("shop/third", kThird), Web("shop/web", kWeb)} +
               WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/gone", {&pod_b()}) +
               WebSlices("shop/third", {&pod_b()}));
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK_AND_ASSIGN(auto traffic, StartTraffic(kWeb, "pod-a"));

  server().Stop();
  server().Remove({ServiceRef("shop/gone")});
  server().ForgetEvents();
  server().AlwaysPage(1);
  server().Fail({.what = What::kHang, .where = Where::kLaterPages, .collection = "services"});
  const int lists = server().lists("services");
  ASSERT_OK(server().StartAgain());
  ASSERT_OK(Eventually("a first page", [&] { return server().lists("services") >= lists + 2; }));
  ASSERT_OK(traffic->Go(100));
  // The first page does not contain the Service, but svcmap-kube must not remove the Service before
  // the list is complete.
  EXPECT_EQ(Answering(kOther), "pod-b");
  EXPECT_EQ(Answering(kThird), "pod-b");
  server().Heal();
  EXPECT_OK(Until(kOther, ""));
  EXPECT_EQ(Answering(kThird), "pod-b");
  EXPECT_OK(traffic->Stop().Check());
}

// The first list requests fail one after the other. svcmap-kube sends nothing before all lists are
// complete, so svcmapd keeps the state of the previous svcmap-kube process.
TEST_F(BridgeTest, ANewBridgePrunesNothingBeforeAllListsAreComplete) {
  server().Put(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}));
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK_AND_ASSIGN(auto traffic, StartTraffic(kWeb, "pod-a"));
  ASSERT_OK(KillBridge());
  server().Fail({.collection = "endpointslices", .code = 503});
  const int lists = server().lists("endpointslices");
  server().Put(Objects{Web("shop/other", kOther)} + WebSlices("shop/other", {&pod_b()}));
  ASSERT_OK(StartBridge());
  ASSERT_OK(Eventually("two lists", [&] { return server().lists("endpointslices") >= lists + 2; }));
  EXPECT_EQ(Answering(kOther, kShort), "");
  server().Heal();
  EXPECT_OK(Until(kOther, "pod-b"));
  EXPECT_OK(traffic->Stop().Check());
}

// The API server's cache may be older than the state in svcmapd, so svcmap-kube does not list from
// the cache.
TEST_F(BridgeTest, S342_ANewBridgePrunesNothingThatACacheDoesNotHaveYet) {
  server().FreezeCache();
  server().Put(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}));
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK_AND_ASSIGN(auto traffic, StartTraffic(kWeb, "pod-a"));
  ASSERT_OK(KillBridge());
  server().Fail(
      // Watches must hang, because otherwise they would deliver the change.
      {.what = What::kHang, .where = Where::kWatches});
  server().Put(Objects{Web("shop/other", kOther)} + WebSlices("shop/other", {&pod_b()}));
  ASSERT_OK(StartBridge());
  EXPECT_OK(Until(kOther, "pod-b"));
  EXPECT_OK(traffic->Stop().Check());
}

}  // namespace
}  // namespace svcmap::testing
