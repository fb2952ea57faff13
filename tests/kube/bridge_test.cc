// Tests that objects in the API server affect packets.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "tests/kube/bridge_world.h"
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// Tests of the requests with which svcmap-kube changes objects in the API server.

constexpr char kTaint[] = "svcmap/not-ready";

ANode TaintedNode() {
  return ANode(kAgentNode).InternalIp(kNodeV4).InternalIp(kNodeV6).Taint("other").Taint(kTaint);
}

v1::Object WebWithWrongPick(const std::string& key, const Address& address) {
  v1::Object object = Web(key, address);
  (*object.mutable_service()->mutable_metadata()->mutable_annotations())["svcmap/endpoint-pick"] =
      "source";
  return object;
}

class WriteTest : public BridgeTest {
 protected:
  void SetUp() override {
    BridgeTest::SetUp();
    if (HasFatalFailure()) return;
    server().Put(Objects{TaintedNode(), WebWithWrongPick("shop/web", kWeb)} +
                 WebSlices("shop/web", {&pod_a()}));
  }

  std::vector<SeenRequest> Writes() {
    std::vector<SeenRequest> writes = server().requests();
    std::erase_if(writes, [](const SeenRequest& request) { return request.method == "GET"; });
    return writes;
  }
  size_t Logged(const std::string& text) const {
    const std::vector<std::string> parts = absl::StrSplit(BridgeLog(), text);
    return parts.size() - 1;
  }
};

TEST_F(WriteTest, TheStartupTaintStaysUntilTheServicesAreProgrammed) {
  ASSERT_OK(StartLastingAgent());
  ASSERT_OK(KillAgent());
  ASSERT_OK(StartBridge({"--startup-taint", kTaint}));
  ASSERT_OK(Eventually("four watches", [&] { return server().open_watches() == 4; }));
  EXPECT_THAT(server().taints(kAgentNode), ElementsAre("other", kTaint));
  ASSERT_OK(StartLastingAgent());
  ASSERT_OK(
      Eventually("no startup taint", [&] { return server().taints(kAgentNode).size() == 1; }));
  EXPECT_EQ(Answering(kWeb), "pod-a");
  EXPECT_THAT(server().taints(kAgentNode), ElementsAre("other"));

  // svcmap-kube removes the taint once after its start.
  server().Put(Objects{TaintedNode()} + WebSlices("shop/web", {&pod_b()}));
  ASSERT_OK(Until(kWeb, "pod-b"));
  EXPECT_THAT(server().taints(kAgentNode), ElementsAre("other", kTaint));
  EXPECT_THAT(Writes(), SizeIs(1));  // Without --events, the finding causes no Event.
  EXPECT_OK(StopBridge());
}

TEST_F(WriteTest, RejectedRemovalsOfTheStartupTaintAreLoggedOnceAndRetried) {
  const std::vector<std::pair<int, std::string>> rejections = {
      {403, "RBAC rule required: get nodes, patch nodes"}, {409, "API server returned 409"}};
  for (const auto& [code, line] : rejections) {
    SCOPED_TRACE(code);
    server().Fail({.where = Fault::Where::kWrites, .collection = "nodes", .code = code});
    server().Put({TaintedNode()});
    const size_t before = Writes().size();
    ASSERT_OK(StartBridge({"--startup-taint", kTaint}));
    ASSERT_OK(Eventually("two attempts", [&] { return Writes().size() >= before + 2; }));
    server().Heal();
    ASSERT_OK(
        Eventually("no startup taint", [&] { return server().taints(kAgentNode).size() == 1; }));
    EXPECT_EQ(Logged(line), 1u);
    ASSERT_OK(StopBridge());
  }
}

TEST_F(WriteTest, AFindingIsOneEventForAllNodes) {
  ASSERT_OK(StartBridge({"--events"}));
  ASSERT_OK(Eventually("an Event", [&] { return server().events().size() == 1; }));
  const std::string event = server().events().at(0);
  EXPECT_THAT(event, HasSubstr(R"("uid":"Service-shop-web-0000-4000-8000")"));
  EXPECT_THAT(event, HasSubstr(R"("note":"Service shop/web: metadata.annotations[)"));
  EXPECT_THAT(event, HasSubstr(absl::StrCat(R"("reportingInstance":")", kAgentNode, R"(")")));
  // Another process has the same finding.
  ASSERT_OK(KillBridge());
  ASSERT_OK(StartBridge({"--events"}));
  ASSERT_OK(Eventually("a second request",
                       [&] { return Writes().size() == 2 && Writes().at(1).answered != 0; }));
  EXPECT_EQ(Writes().at(1).answered, 409);
  EXPECT_THAT(server().events(), SizeIs(1));
  EXPECT_THAT(server().taints(kAgentNode), SizeIs(2));  // Without --startup-taint.
}

TEST_F(WriteTest, WithoutTheRuleForEventsOneLineNamesIt) {
  server().Fail({.where = Fault::Where::kWrites, .collection = "events", .code = 403});
  ASSERT_OK(StartBridge({"--events"}));
  ASSERT_OK(Eventually("a log line", [&] { return Logged("create events.events.k8s.io") == 1; }));
  EXPECT_THAT(Writes(), SizeIs(1));
  EXPECT_THAT(server().events(), IsEmpty());
  EXPECT_EQ(Answering(kWeb), "pod-a");
}

}  // namespace
}  // namespace svcmap::testing
