// Tests of the requests with which svcmap-kube changes objects in the API server.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/kube/bridge_world.h"

namespace svcmap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
