// Test cases from Kubernetes' end-to-end tests of Services that need no cluster and that no other
// test covers. docs/conformance.md contains the complete list.
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

class UpstreamTest : public FlowFamilyTest {
 protected:
  absl::Status Endpoints(const std::string& service, const std::string& endpoints) {
    return agent().Apply(Slices(*world(), service, endpoints));
  }
};
INSTANTIATE_FAMILIES(UpstreamTest);

TEST_P(UpstreamTest, S2_S7_S8_TheTypeOfAServiceChanges) {
  ASSERT_OK(Endpoints("shop/web", "L1 R1"));
  AService node_port = Web("shop/web", kV);
  node_port.Port("other", 81).NodePort(kNodePort);
  ASlice other("shop/web");
  other.Named("web-other").Endpoint(pod_a().address(v6())).Port("other", kPodPort);
  ASSERT_OK(agent().Apply({other}));
  const AService external_name = AService("shop/web").Type("ExternalName");
  const struct {
    const char* what;
    AService service;
    const char* cluster_ip;
    const char* port;
    const char* load_balancer;
  } steps[] = {
      {"ClusterIP", Web("shop/web", kV), "L1,R1 -", "untouched", "untouched"},
      {"NodePort", node_port, "L1,R1 -", "L1 m", "untouched"},
      {"LoadBalancer", ExternalWeb("shop/web", kV), "L1,R1 -", "L1,R1 m", "L1,R1 m"},
      {"ExternalName", external_name, "DROP", "untouched", "untouched"},
      {"NodePort", node_port, "L1,R1 -", "L1 m", "untouched"},
      {"ExternalName", external_name, "DROP", "untouched", "untouched"},
      {"ClusterIP", Web("shop/web", kV), "L1,R1 -", "untouched", "untouched"},
  };
  for (const auto& step : steps) {
    SCOPED_TRACE(step.what);
    ASSERT_OK(agent().Apply({step.service}));
    Expect({"P -> V:80", step.cluster_ip});
    Expect({"X -> N:NP", step.port});
    Expect({"X -> VIP:80", step.load_balancer});
  }
}

TEST_P(UpstreamTest, S4_S8_PortsAndNodePortsChange) {
  ASSERT_OK(Endpoints("shop/web", "L1"));
  const auto service = [](int port, int node_port) {
    AService changed("shop/web");
    changed.ClusterIps(kV.v4, kV.v6).Port("tcp", port).NodePort(node_port);
    return Objects{changed.LoadBalancerIp(kLoadBalancerIp.v4).LoadBalancerIp(kLoadBalancerIp.v6)};
  };
  ASSERT_OK(agent().Apply(service(80, kNodePort)));
  Expect({"P -> V:80", "L1 -"});
  Expect({"X -> VIP:80", "L1 m"});
  Expect({"X -> N:NP", "L1 m"});
  ASSERT_OK(agent().Apply(service(81, kNodePort)));
  Expect({"P -> V:80", "REJECT"});
  Expect({"P -> V:81", "L1 -"});
  Expect({"X -> VIP:80", "untouched"});
  Expect({"X -> VIP:81", "L1 m"});
  Expect({"X -> N:NP", "L1 m"});
  ASSERT_OK(agent().Apply(service(81, kNodePort + 1)));
  Expect({"X -> N:NP", "untouched"});
  Expect({"X -> N:30081", "L1 m"});
}

TEST_P(UpstreamTest, ServicesComeAndGoAndComeAgain) {
  const auto up = [&](const char* name, const Address& address) {
    return agent().Apply(Objects{Web(name, address)} + Slices(*world(), name, "L1 R1"));
  };
  ASSERT_OK(up("shop/one", kV));
  ASSERT_OK(up("shop/two", kW));
  Expect({"P -> V:80", "L1,R1 -"});
  Expect({"P -> W:80", "L1,R1 -"});
  ASSERT_OK(
      agent().Remove({ServiceRef("shop/one"), SliceRef("shop/one-v4"), SliceRef("shop/one-v6")}));
  Expect({"P -> V:80", "DROP"});
  Expect({"P -> W:80", "L1,R1 -"});
  ASSERT_OK(up("shop/three", kV));
  Expect({"P -> V:80", "L1,R1 -"});
  ASSERT_OK(agent().Remove(
      {ServiceRef("shop/three"), SliceRef("shop/three-v4"), SliceRef("shop/three-v6")}));
  ASSERT_OK(up("shop/one", kV));
  Expect({"P -> V:80", "L1,R1 -"});
}

// A client continuously opens connections while endpoints are replaced one by one, each after a
// terminating phase. No connection is rejected or lost. With policy Local, only endpoints of this
// node are used.
TEST_P(UpstreamTest, S33_S34_S340_ARollingUpdateLosesNoConnection) {
  for (const char* policy : {"Cluster", "Local"}) {
    SCOPED_TRACE(policy);
    ASSERT_OK(agent().Replace(Basics() +
                              Objects{ExternalWeb("shop/web", kV).ExternalPolicy(policy)} +
                              Slices(*world(), "shop/web", "L1 L2")));
    std::atomic<bool> stop = false;
    std::atomic<int> asked = 0;
    std::string lost;
    std::thread asking([&] {
      while (!stop) {
        const Answer answer =
            Ask(client().netns(), {.destination = kLoadBalancerIp.in(v6()), .port = 80});
        if (answer.outcome != Outcome::kAnswered) lost = answer.ToString();
        ++asked;
      }
    });
    for (int round = 0; round < 5 || asked < 50; ++round) {
      for (const char* endpoints : {"L1:st L2", "L2 L3", "L2:st L3", "L2:st L3:st", "L3:st L4",
                                    "L4 L1", "L4:st L1", "L1 L2"}) {
        EXPECT_OK(Endpoints("shop/web", endpoints));
      }
    }
    stop = true;
    asking.join();
    EXPECT_EQ(lost, "") << "of " << asked << " connections";
  }
}

// A UDP client keeps its source port while its pod is replaced. The client's flow must move to the
// new pod.
class UdpCyclingTest : public FlowTest,
                       public ::testing::WithParamInterface<std::tuple<bool, const char*>> {
 protected:
  static bool v6() { return std::get<0>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(
    , UdpCyclingTest,
    ::testing::Combine(::testing::Bool(),
                       ::testing::Values("PodToClusterIp", "ClientToLoadBalancerIpOfPolicyLocal")),
    [](const ::testing::TestParamInfo<std::tuple<bool, const char*>>& info) {
      return absl::StrCat(std::get<0>(info.param) ? "IPv6_" : "IPv4_", std::get<1>(info.param));
    });

TEST_P(UdpCyclingTest, S240_S245_AClientsFlowFollowsTheServerPod) {
  const bool local = std::string(std::get<1>(GetParam())).ends_with("Local");
  AService service = ExternalWeb("shop/web", kV);
  if (local) service.InternalPolicy("Local").ExternalPolicy("Local");
  const Host& from = local ? client() : *world()->cast.at("P");
  const Request request = {.protocol = Protocol::kUdp,
                           .destination = (local ? kLoadBalancerIp : kV).in(v6()),
                           .port = 80,
                           .source_port = 40000,
                           .timeout = kShort};
  const auto answering = [&] { return Ask(from.netns(), request).server; };
  const auto becomes = [&](const std::string& endpoints, const std::string& server) {
    ASSERT_OK(agent().Apply(Slices(*world(), "shop/web", endpoints)));
    EXPECT_OK(Eventually(absl::StrCat("answers of ", server, " with ", endpoints),
                         [&] { return answering() == server; }));
  };
  ASSERT_OK(agent().Apply({service}));
  becomes("L1", "pod-a");
  becomes("L2", "pod-b");  // One step replaces the endpoint.
  becomes("", "");         // The only endpoint is removed, and another endpoint is added later.
  becomes("L1:x", "");
  becomes("L1", "pod-a");
  becomes("L1:st L2", "pod-a");  // The terminating endpoint is still serving, so the flow stays.
  becomes("L2", "pod-b");
}

}  // namespace
}  // namespace svcmap::testing
