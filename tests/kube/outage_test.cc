// Tests of API server faults. Traffic continues, existing objects are not pruned, and later changes
// arrive.
#include <cstring>
#include <filesystem>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/kube/bridge_world.h"
#include "tests/netns/service_world.h"

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

// Tests that restart svcmap-kube and svcmapd in every order, under traffic and with changes to the
// cluster.

enum class Step { kKillBridge, kKillAgent, kStartBridge, kStartAgent, kLoseState };

struct Order {
  const char* name;
  std::vector<Step> steps;
};

void PrintTo(const Order& order, std::ostream* out) { *out << order.name; }

const Order kOrders[] = {
    {"TheBridgeAlone", {Step::kKillBridge, Step::kStartBridge}},
    {"TheAgentAlone", {Step::kKillAgent, Step::kStartAgent}},
    {"TheAgentAloneAndItsState", {Step::kKillAgent, Step::kLoseState, Step::kStartAgent}},
    {"BothTheAgentComesFirst",
     {Step::kKillBridge, Step::kKillAgent, Step::kStartAgent, Step::kStartBridge}},
    {"BothTheBridgeComesFirst",
     {Step::kKillAgent, Step::kKillBridge, Step::kStartBridge, Step::kStartAgent}},
    {"BothAndTheStateTheBridgeComesFirst",
     {Step::kKillAgent, Step::kKillBridge, Step::kLoseState, Step::kStartBridge,
      Step::kStartAgent}},
};

class OrderTest : public BridgeTest, public ::testing::WithParamInterface<Order> {
 protected:
  absl::Status Take(Step step) {
    switch (step) {
      case Step::kKillBridge:
        return KillBridge();
      case Step::kKillAgent:
        return KillAgent();
      case Step::kStartBridge:
        return StartBridge();
      case Step::kStartAgent:
        return StartLastingAgent();
      case Step::kLoseState:
        std::filesystem::remove_all(state_folder());
        break;
    }
    return absl::OkStatus();
  }
};
INSTANTIATE_TEST_SUITE_P(, OrderTest, ::testing::ValuesIn(kOrders),
                         [](const ::testing::TestParamInfo<Order>& info) {
                           return info.param.name;
                         });

TEST_P(OrderTest, S342_NothingIsPrunedThatStillExists) {
  server().Put(Objects{Web("shop/web", kWeb), Web("shop/gone", kOther)} +
               WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/gone", {&pod_b()}));
  ASSERT_OK(StartLastingAgent());
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK(Until(kOther, "pod-b"));
  ASSERT_OK_AND_ASSIGN(auto traffic, StartTraffic(kWeb, "pod-a"));

  bool changed = false;
  for (const Step step : GetParam().steps) {
    const bool coming = step == Step::kStartBridge || step == Step::kStartAgent;
    if (coming && !changed) {  // Make the change while one of the processes is stopped.
      server().Remove({ServiceRef("shop/gone")});
      server().Put(Objects{Web("shop/third", kThird)} + WebSlices("shop/third", {&pod_b()}));
      changed = true;
    }
    ASSERT_OK(Take(step));
    ASSERT_OK(traffic->Go(50));
  }
  EXPECT_OK(Until(kThird, "pod-b"));
  EXPECT_OK(Until(kOther, ""));
  server().Put(WebSlices("shop/third", {&pod_a()}));
  EXPECT_OK(Until(kThird, "pod-a"));
  ASSERT_OK(traffic->Go(50));
  EXPECT_OK(traffic->Stop().Check());
  ASSERT_OK(UntilTheAgentHasAll());
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

// Tests svcmap-kube with an API server that supports HTTP/2.
class Http2Test : public BridgeTest {
 protected:
  void SetUp() override {
    BridgeTest::SetUp();
    if (HasFatalFailure()) return;
    const std::string certificate = folder() + "/server.crt";
    const std::string key = folder() + "/server.key";
    ASSERT_OK(server().WriteIdentity(certificate, key));
    ASSERT_OK_AND_ASSIGN(proxy_, ChildProcess::Start({.argv = {SVCMAP_BIN_DIR "/http2-proxy",
                                                               certificate, key, server().url()},
                                                      .netns = &node().netns()}));
    ASSERT_TRUE(proxy_->WaitForOutput("\n", kHangLimit)) << proxy_->err();
  }

  std::vector<std::string> ProxyLines() const {
    return absl::StrSplit(proxy_->out(), '\n', absl::SkipEmpty());
  }
  std::string ProxyUrl() const {
    return absl::StrCat("https://127.0.0.1:", ProxyLines().at(0).substr(strlen("port ")));
  }
  // Opened and closed connections, in order.
  std::vector<std::string> Connections() const {
    std::vector<std::string> lines = ProxyLines();
    lines.erase(lines.begin());
    return lines;
  }

 private:
  std::unique_ptr<ChildProcess> proxy_;
};

TEST_F(Http2Test, AllWatchesShareOneConnection) {
  Objects objects;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = absl::StrCat("many/s", i);
    objects.push_back(
        AService(key).ClusterIp(absl::StrCat("10.96.", 4 + i / 250, ".", i % 250)).Port("tcp", 80));
    objects.push_back(ASlice(key).Endpoint("10.244.2.1", "n2").Port("tcp", kPodPort));
  }
  server().AlwaysPage(300);
  server().Put(objects + Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}));
  ASSERT_OK(StartBridge({"--master", ProxyUrl()}));
  ASSERT_OK(Eventually("four watches", [&] { return server().open_watches() == 4; }));
  EXPECT_OK(Until(kWeb, "pod-a"));
  EXPECT_OK(UntilTheAgentHasAll());
  EXPECT_THAT(Connections(), ::testing::ElementsAre("new"));

  // Many events on two watches at the same time.
  for (int round = 0; round < 5; ++round) {
    server().Put(WebSlices("shop/web", {round % 2 == 0 ? &pod_b() : &pod_a()}));
    for (v1::Object& object : objects) {
      v1::ObjectMeta& meta = object.has_service()
                                 ? *object.mutable_service()->mutable_metadata()
                                 : *object.mutable_endpoint_slice()->mutable_metadata();
      (*meta.mutable_annotations())["round"] = absl::StrCat(round);
    }
    server().Put(objects);
  }
  EXPECT_OK(Until(kWeb, "pod-b"));
  server().EndWatches();
  server().Put(WebSlices("shop/web", {&pod_a()}));
  EXPECT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK(Eventually("four watches", [&] { return server().open_watches() == 4; }));
  EXPECT_THAT(Connections(), ::testing::ElementsAre("new"));
}

}  // namespace
}  // namespace svcmap::testing
