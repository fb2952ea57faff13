// Tests that changes affect new connections and keep existing connections.
#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

using OpenFlowTest = ServiceFamilyTest;
INSTANTIATE_FAMILIES(OpenFlowTest);

using RulesetTest = ServiceTest;

TEST_F(RulesetTest, S138_S353_ServicesChangeOnlyElements) {
  ASSERT_OK_AND_ASSIGN(const std::string rules, Nft(node().netns(), "-t list ruleset"));
  const auto expect_the_same_rules = [&](const char* when) {
    const auto now = Nft(node().netns(), "-t list ruleset");
    ASSERT_OK(now);
    EXPECT_EQ(*now, rules) << when;
    ExpectAppliedIsInTheKernel(agent(), node().netns());
  };
  Objects objects = {ExternalWeb("shop/web", kWeb)};
  for (int i = 11; i < 90; ++i) objects.push_back(Web(absl::StrCat("shop/s", i), ClusterIp(i)));
  ASSERT_OK(agent().Apply(objects + WebSlices("shop/web", {&pod_a(), &remote_pod()}) +
                          WebSlices("shop/s11", {&pod_b()})));
  expect_the_same_rules("Services");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_b()}) + WebSlices("shop/s11", {})));
  expect_the_same_rules("endpoints");
  ASSERT_OK(agent().Replace(Basics()));
  expect_the_same_rules("no Services");
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  for (const v1::MapCount& map : status.maps()) {
    if (map.name() != "service-ips" && map.name() != "endpoints") continue;
    EXPECT_EQ(map.elements(), 0u) << map.ShortDebugString();
  }
}

TEST_P(OpenFlowTest, S95_S101_AnOpenConnectionOutlivesItsEndpointAndItsService) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const std::vector<Request> requests = {{.destination = kWeb.in(v6()), .port = 80},
                                         {.destination = kExternalIp.in(v6()), .port = 80},
                                         {.destination = kNode.in(v6()), .port = kNodePort}};
  std::vector<TcpFlow> flows;
  for (const Host* from : {&pod_b(), &client(), &node()}) {
    for (const Request& request : requests) {
      ASSERT_OK_AND_ASSIGN(TcpFlow flow, TcpFlow::Open(from->netns(), request));
      flows.push_back(std::move(flow));
    }
  }
  const auto all_flow = [&](const char* when) {
    for (TcpFlow& flow : flows) EXPECT_OK(flow.Exchange(100'000)) << when;
  };
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  all_flow("replaced endpoint");
  EXPECT_EQ(Ask(pod_b().netns(), requests[0]).server, "remote-pod");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {})));
  all_flow("no endpoints");
  for (const Request& request : requests) EXPECT_REJECTED(Ask(pod_b().netns(), request));
  ASSERT_OK(agent().Remove({ServiceRef("shop/web")}));
  all_flow("no Service");
}

}  // namespace
}  // namespace svcmap::testing
