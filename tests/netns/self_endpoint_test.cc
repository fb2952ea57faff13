// Tests of connections whose endpoint has the same address, port and protocol as their destination,
// for example an ingress controller in the host network whose Service has the node addresses as
// external IPs. `dnat` does not change such a connection.
#include <memory>
#include <string>
#include <vector>

#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"

namespace svcmap::testing {
namespace {

class SelfEndpointTest : public ServiceFlowTest {
 protected:
  void SetUp() override {
    ServiceFlowTest::SetUp();
    if (world() == nullptr) return;
    ASSERT_OK_AND_ASSIGN(process_, EchoServer::Start(node().netns()));
    ASSERT_OK(process_->Listen({protocol(), kNode.in(v6()), kPodPort, "node-process"}));
  }
  void TearDown() override {
    process_.reset();
    ServiceFlowTest::TearDown();
  }

  // A Service with the external IP `address`, whose port is the port of its endpoints.
  AService At(const Address& address) {
    AService service("shop/web");
    service.ClusterIps(kWeb.v4, kWeb.v6)
        .Port("one", kPodPort, protocol())
        .ExternalIp(address.v4)
        .ExternalIp(address.v6);
    return service;
  }
  Objects Slices(const std::vector<const Host*>& hosts) {
    return SlicesOf("shop/web", hosts, {{"one", kPodPort, protocol()}});
  }

  // The first packet reaches the server. A lost SYN is sent again after one second, so the time
  // limit is shorter.
  void ExpectServer(const std::string& server, const Host& from, const Address& address) {
    Request request = To(address, kPodPort);
    request.timeout = std::chrono::milliseconds(900);
    const Answer answer = svcmap::testing::Ask(from.netns(), request);
    EXPECT_EQ(answer.server, server)
        << from.name() << " to " << address.in(v6()) << ": " << answer.ToString();
  }
  std::vector<const Host*> Sources() { return {&pod_a(), &client(), &remote_pod(), &node()}; }

  std::unique_ptr<EchoServer> process_;
};
INSTANTIATE_FLOWS(SelfEndpointTest);

TEST_P(SelfEndpointTest, AProcessOnTheNode) {
  ASSERT_OK(agent().Apply(Objects{At(kNode)} + Slices({&node()})));
  for (const Host* from : Sources()) {
    for (const Address& address : {kWeb, kNode}) ExpectServer("node-process", *from, address);
  }
  ExpectAppliedIsInTheKernel(agent(), node().netns());
}

TEST_P(SelfEndpointTest, ThePolicyLocal) {
  ASSERT_OK(
      agent().Apply(Objects{At(kNode).ExternalPolicy("Local")} + Slices({&node(), &remote_pod()})));
  ExpectServer("node-process", client(), kNode);
}

TEST_P(SelfEndpointTest, AnEndpointOnAnotherNode) {
  const Address remote = {remote_pod().v4(), remote_pod().v6()};
  ASSERT_OK(agent().Apply(Objects{At(remote)} + Slices({&remote_pod()})));
  for (const Host* from : {&pod_a(), &client(), &node()}) {
    ExpectServer("remote-pod", *from, remote);
  }
}

TEST_P(SelfEndpointTest, OtherEndpointsAreStillTranslated) {
  ASSERT_OK(agent().Apply(Objects{At(kNode)} + Slices({&node(), &pod_a()})));
  const Tally tally = AskMany(client().netns(), To(kNode, kPodPort), TriesToReachAll(2));
  EXPECT_EQ(tally.answered, TriesToReachAll(2)) << tally.ToString();
  EXPECT_EQ(tally.by_server.size(), 2u) << tally.ToString();
}

TEST_P(SelfEndpointTest, WithSessionAffinity) {
  ASSERT_OK(agent().Apply(Objects{At(kNode).ClientIpAffinity()} + Slices({&node()})));
  for (int i = 0; i < 3; ++i) ExpectServer("node-process", client(), kNode);
}

TEST_P(SelfEndpointTest, ARangeOfPorts) {
  ASSERT_OK(world()->RestartAgent({"--port-ranges"}));
  v1::Object service = At(kNode);
  service.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(kPodPort + 600);
  ASSERT_OK(agent().Apply(Objects{service} + Slices({&node()})));
  for (const Host* from : Sources()) ExpectServer("node-process", *from, kNode);
}

}  // namespace
}  // namespace svcmap::testing
