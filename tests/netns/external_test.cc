// Tests of external IPs, LoadBalancer IPs and nodePorts. The tests check answering endpoints,
// source addresses and untranslated packets.
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

constexpr uint16_t kSourcePort = 5454;

class ExternalTest : public ServiceFlowTest {
 protected:
  absl::Status Serve(const Host& endpoint) {
    if (absl::Status status = FlushConntrack(node().netns()); !status.ok()) return status;
    return agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} +
                         WebSlices("shop/web", {&endpoint}));
  }

  // Starts a process on the node that answers as "node-process".
  absl::StatusOr<std::unique_ptr<EchoServer>> NodeProcess(const Address& address, uint16_t port) {
    return EchoServer::StartAll(node().netns(), address.v4, address.v6, port, "node-process");
  }
};
INSTANTIATE_FLOWS(ExternalTest);

TEST_P(ExternalTest, S96_ANodePortBeatsALocalSocket) {
  ASSERT_OK_AND_ASSIGN(const auto process, NodeProcess(kNode, kNodePort));
  EXPECT_ANSWERED_BY(Ask(client(), To(kNode, kNodePort)), "node-process", At(client()));
  ASSERT_OK(FlushConntrack(node().netns()));
  ASSERT_OK(Serve(pod_a()));
  for (const Host* from : {&client(), &pod_b(), &node()}) {
    EXPECT_ANSWERED_BY(Ask(*from, To(kNode, kNodePort)), "pod-a", At(node())) << from->name();
  }
}

// The host "outside" has the external addresses and answers if the node routes the packets.
TEST_P(ExternalTest, WithoutLocalEndpointsPacketsAreRouted) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb)
                                      .ExternalPolicy("Local")
                                      .Annotation("svcmap/no-local-endpoint", "route")} +
                          WebSlices("shop/web", {&pod_a()})));
  // The flow keeps its source port, so that its connection tracking entry would match again.
  const auto ask = [&](const Host& from, const Address& address) {
    Request request = To(address);
    if (protocol() == Protocol::kUdp) request.source_port = kSourcePort;
    return Ask(from, request).server;
  };
  const auto expect = [&](const std::string& server) {
    for (const Host* from : {&client(), &pod_b(), &node()}) {
      for (const Address& address : {kExternalIp, kLoadBalancerIp}) {
        EXPECT_OK(Eventually(absl::StrCat(from->name(), " reaches ", server),
                             [&] { return ask(*from, address) == server; }));
      }
    }
  };
  expect("pod-a");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  expect("outside");
  EXPECT_EQ(ask(client(), kWeb), "remote-pod");
  EXPECT_NO_ANSWER(Ask(client(), InVain(kNode, kNodePort)));
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {})));
  expect("outside");
  EXPECT_REJECTED(Ask(client(), To(kWeb)));
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_b()})));
  expect("pod-b");
}

// An exact address takes precedence over nodePorts, regardless of the age of the Services.
TEST_P(ExternalTest, S94_AnExternalIpThatIsTheNodesWinsOnItsPort) {
  for (const int64_t created : {1000, 3000}) {
    SCOPED_TRACE(created);
    AService by_address("shop/by-address");
    by_address.ClusterIps(ClusterIp(11).v4, ClusterIp(11).v6)
        .ExternalIp(kNodeV4)
        .ExternalIp(kNodeV6)
        .CreatedAt(created);
    for (const Protocol protocol : kProtocols) {
      by_address.Port(ProtocolName(protocol), kNodePort, protocol);
    }
    ASSERT_OK(agent().Replace(Basics() + WebSlices("shop/web", {&pod_a()}) +
                              WebSlices("shop/by-address", {&pod_b()}) +
                              Objects{ExternalWeb("shop/web", kWeb).CreatedAt(2000), by_address}));
    EXPECT_ANSWERED_BY(Ask(client(), To(kNode, kNodePort)), "pod-b", At(node()));
    ASSERT_OK(agent().Remove({ServiceRef("shop/by-address")}));
    ASSERT_OK(FlushConntrack(node().netns()));
    EXPECT_ANSWERED_BY(Ask(client(), To(kNode, kNodePort)), "pod-a", At(node()));
    ASSERT_OK(FlushConntrack(node().netns()));
  }
}

}  // namespace
}  // namespace svcmap::testing
