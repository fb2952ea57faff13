// Tests that objects in the API server affect packets.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/kube/bridge_world.h"
#include "tests/netns/listing.h"

namespace svcmap::testing {
namespace {

constexpr char kProxyName[] = "service.kubernetes.io/service-proxy-name";

v1::Object Labeled(const AService& service, const std::string& label, const std::string& value) {
  v1::Object object = service;
  (*object.mutable_service()->mutable_metadata()->mutable_labels())[label] = value;
  return object;
}

ANode ThisNode() { return ANode(kAgentNode).InternalIp(kNodeV4).InternalIp(kNodeV6); }

// Starts svcmap-kube with one Service.
class ObjectsTest : public BridgeTest {
 protected:
  void SetUp() override {
    BridgeTest::SetUp();
    if (HasFatalFailure()) return;
    server().Put(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}));
    ASSERT_OK(StartBridge());
    ASSERT_OK(Until(kWeb, "pod-a"));
  }
};

TEST_F(ObjectsTest, AServiceFollowsItsEndpointsToItsEnd) {
  server().Put(WebSlices("shop/web", {&pod_b()}));
  EXPECT_OK(Until(kWeb, "pod-b"));
  server().Put({ExternalWeb("shop/web", kWeb)});
  EXPECT_OK(Until(kExternalIp, "pod-b"));
  EXPECT_EQ(Answering(kLoadBalancerIp), "pod-b");
  server().Remove({ServiceRef("shop/web")});
  EXPECT_OK(Until(kWeb, ""));
  ASSERT_OK(UntilTheAgentHasAll());
  ExpectAppliedIsInTheKernel(agent(), node().netns());
  for (const SeenRequest& request : server().requests()) {
    EXPECT_EQ(request.headers.at("accept"), "application/vnd.kubernetes.protobuf");
    EXPECT_EQ(request.answered, 200);
  }
  EXPECT_OK(StopBridge());
}

TEST_F(ObjectsTest, S1_TheProxyNameLabelTakesAServiceAwayAndItsRemovalBringsItBack) {
  // The label excludes the Service from svcmap even if the label's value is empty.
  server().Put({Labeled(Web("shop/web", kWeb), kProxyName, "")});
  EXPECT_OK(Until(kWeb, ""));
  server().Put({Web("shop/web", kWeb)});
  EXPECT_OK(Until(kWeb, "pod-a"));
}

TEST_F(ObjectsTest, S17_HeadlessServicesAndSlicesAreNotSeen) {
  Objects headless = WebSlices("shop/web", {&pod_b()});
  for (v1::Object& slice : headless) {
    v1::ObjectMeta& meta = *slice.mutable_endpoint_slice()->mutable_metadata();
    meta.set_name("headless-" + meta.name());
    (*meta.mutable_labels())["service.kubernetes.io/headless"] = "";
  }
  server().Put(headless + Objects{AService("shop/none").ClusterIp("None").Port("http", 80)} +
               Objects{Web("shop/other", kOther)} + WebSlices("shop/other", {&pod_b()}));
  // By now, objects that the test added earlier would also have arrived.
  ASSERT_OK(Until(kOther, "pod-b"));
  const Tally tally = AskMany(client().netns(), {.destination = kWeb.v4, .port = 80}, 50);
  EXPECT_EQ(tally.by_server.at("pod-a"), 50) << tally.ToString();
  EXPECT_OK(UntilTheAgentHasAll());  // The agent has all relevant objects and no other objects.
}

// The Node's zone selects endpoints by their hints (S-29). Packets to unused addresses of
// ServiceCIDRs are dropped (S-83).
TEST_F(ObjectsTest, S29_S83_TheNodeAndTheServiceRangesArrive) {
  Objects slices;
  for (const bool v6 : {false, true}) {
    slices.push_back(ASlice("shop/web")
                         .Named(v6 ? "web-v6" : "web-v4")
                         .Endpoint(pod_a().address(v6), kAgentNode)
                         .ZoneHint("here")
                         .Endpoint(pod_b().address(v6), kAgentNode)
                         .ZoneHint("there")
                         .Port("tcp", kPodPort));
  }
  server().Put(Objects{ThisNode().Zone("there").PodCidr(kPodCidrV4)} + slices);
  EXPECT_OK(Until(kWeb, "pod-b"));
  server().Put(Objects{ANode("n2").Zone("here"), ThisNode().Zone("here").PodCidr(kPodCidrV4)});
  EXPECT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK_AND_ASSIGN(const Objects held, agent().List());
  int nodes = 0;
  for (const v1::Object& object : held) {
    if (!object.has_node()) continue;
    ++nodes;
    EXPECT_EQ(object.node().spec().pod_cidrs(0), kPodCidrV4);
  }
  EXPECT_EQ(nodes, 1);  // svcmap-kube sends only the agent's Node, n1.

  EXPECT_EQ(Answering(kUnallocated, kShort), "");
  server().Remove({ServiceCidrRef("kubernetes")});
  EXPECT_OK(Until(kUnallocated, "outside"));
}

TEST_F(ObjectsTest, S346_TheTimeOfTheTriggerArrives) {
  const auto measured = [&] {
    const auto status = agent().GetStatus();
    return status.ok() ? status->programming_latency().count() : 0;
  };
  const uint64_t before = measured();
  Objects slices = WebSlices("shop/web", {&pod_b()});
  for (v1::Object& slice : slices) {
    (*slice.mutable_endpoint_slice()
          ->mutable_metadata()
          ->mutable_annotations())["endpoints.kubernetes.io/last-change-trigger-time"] =
        absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone());
  }
  server().Put(slices);
  EXPECT_OK(Until(kWeb, "pod-b"));
  EXPECT_OK(Eventually("a measured latency", [&] { return measured() > before; }));
}

TEST_F(BridgeTest, S1_AServiceProxyNameTakesTheServicesOfThatName) {
  server().Put(Objects{Labeled(Web("shop/web", kWeb), kProxyName, "svcmap"),
                       Labeled(Web("shop/third", kThird), kProxyName, "somebody-else"),
                       Web("shop/other", kOther)} +
               WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/third", {&pod_b()}) +
               WebSlices("shop/other", {&pod_b()}));
  ASSERT_OK(StartBridge({"--service-proxy-name", "svcmap"}));
  EXPECT_OK(Until(kWeb, "pod-a"));
  EXPECT_EQ(Answering(kOther, kShort), "");
  EXPECT_EQ(Answering(kThird, kShort), "");
  server().Put({Labeled(Web("shop/other", kOther), kProxyName, "svcmap"), Web("shop/web", kWeb)});
  EXPECT_OK(Until(kOther, "pod-b"));
  EXPECT_OK(Until(kWeb, ""));
}

TEST_F(BridgeTest, AThousandServicesArriveInPages) {
  Objects objects;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = absl::StrCat("many/s", i);
    objects.push_back(
        AService(key).ClusterIp(absl::StrCat("10.96.", 4 + i / 250, ".", i % 250)).Port("tcp", 80));
    ASlice slice(key);
    for (int j = 0; j < 10; ++j) {
      slice.Endpoint(absl::StrCat("10.244.", 2 + j, ".", 1 + i % 250), "n2");
    }
    objects.push_back(slice.Port("tcp", kPodPort));
  }
  server().AlwaysPage(300);
  server().Put(objects + Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()}));
  ASSERT_OK(StartBridge());
  ASSERT_OK(Until(kWeb, "pod-a"));
  ASSERT_OK(UntilTheAgentHasAll());
  EXPECT_EQ(server().lists("services"), 4);
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

}  // namespace
}  // namespace svcmap::testing
