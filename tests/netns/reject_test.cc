// Tests of Services without endpoints, and of unallocated addresses in the service range.
#include <cerrno>
#include <cstring>
#include <future>

#include "tests/netns/service_world.h"
#include "tests/support/error_counters.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

// Rejects depend on the protocol.
using RejectTest = ServiceFlowTest;
INSTANTIATE_ALL_FLOWS(RejectTest);

TEST_P(RejectTest, S77_S81_S100_WithoutEndpointsEveryAddressRejects) {
  ASSERT_OK(agent().Apply({ExternalWeb("shop/web", kWeb)}));
  for (const Host* from : {&client(), &pod_a(), &node()}) {
    SCOPED_TRACE(from->name());
    EXPECT_REJECTED(Ask(*from, To(kWeb)));
    EXPECT_REJECTED(Ask(*from, To(kExternalIp)));
    EXPECT_REJECTED(Ask(*from, To(kLoadBalancerIp)));
    EXPECT_REJECTED(Ask(*from, To(kNode, kNodePort)));
  }
}

// kube-proxy rejects packets to nodePorts in hook input. For all other addresses, kube-proxy also
// rejects packets in hook output, which makes the send call of a local process fail. For TCP, the
// application never sees the error that occurs when the kernel sends the SYN.
TEST_P(RejectTest, S102_TheNodesOwnPacketsToANodePortAreRejectedAfterTheSend) {
  ASSERT_OK(agent().Apply({ExternalWeb("shop/web", kWeb)}));
  const Answer node_port = Ask(node(), To(kNode, kNodePort));
  EXPECT_REJECTED(node_port);
  EXPECT_EQ(node_port.send_error, 0) << std::strerror(node_port.send_error);
  const Answer cluster_ip = Ask(node(), To(kWeb));
  EXPECT_REJECTED(cluster_ip);
  EXPECT_EQ(cluster_ip.send_error, protocol() == Protocol::kTcp ? 0 : EPERM);
}

using ServiceRangeTest = ServiceFlowTest;
INSTANTIATE_FLOWS(ServiceRangeTest);

TEST_P(ServiceRangeTest, S82_S160_OtherProtocolsOfAClusterIpAreRejected) {
  AService service("shop/web");
  service.ClusterIps(kWeb.v4, kWeb.v6);
  for (const Protocol other : kProtocols) {
    if (other != protocol()) service.Port(ProtocolName(other), 80, other);
  }
  ASSERT_OK(agent().Apply(Objects{service} + WebSlices("shop/web", {&pod_a()})));
  for (const Host* from : {&client(), &pod_b(), &node()}) {
    EXPECT_REJECTED(Ask(*from, To(kWeb))) << from->name();
  }
}

TEST_P(ServiceRangeTest, S106_AServiceCidrTakesEffectAtOnce) {
  EXPECT_NO_ANSWER(Ask(pod_b(), InVain(kUnallocated)));
  ASSERT_OK(agent().Remove({ServiceCidrRef("kubernetes")}));
  ASSERT_OK(FlushConntrack(node().netns()));
  EXPECT_ANSWERED_BY(Ask(pod_b(), To(kUnallocated)), "outside", At(pod_b()));
  ASSERT_OK(FlushConntrack(node().netns()));
  ASSERT_OK(agent().Apply({AServiceCidr("more", {kServiceCidrV4, kServiceCidrV6})}));
  EXPECT_NO_ANSWER(Ask(pod_b(), InVain(kUnallocated)));
}

class RejectFamilyTest : public ServiceFamilyTest {
 protected:
  // Number of ICMP errors "destination unreachable" that the node has sent.
  int64_t IcmpErrors() {
    const auto errors =
        ReadCounter(node().netns(), v6() ? "Icmp6OutDestUnreachs" : "IcmpOutDestUnreachs");
    EXPECT_OK(errors);
    return errors.value_or(-1);
  }
};
INSTANTIATE_FAMILIES(RejectFamilyTest);

TEST_P(RejectFamilyTest, S100_S101_AConnectionSurvivesAMomentWithoutEndpointsAndWithoutAnEntry) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  auto flow = TcpFlow::Open(pod_b().netns(), {.destination = kWeb.in(v6()), .port = 80});
  ASSERT_OK(flow);
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {})));
  ASSERT_OK(FlushConntrack(node().netns()));
  const int64_t before = IcmpErrors();
  std::future<absl::Status> exchange =
      std::async(std::launch::async, [&] { return flow->Exchange(100); });
  EXPECT_OK(Eventually("an ICMP error", [&] { return IcmpErrors() > before; }));
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_a()})));
  EXPECT_OK(exchange.get());
}

TEST_P(RejectFamilyTest, S107_PingIsRejectedByAClusterIpAndDroppedByAFreeOne) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  for (const Host* from : {&client(), &pod_b(), &node()}) {
    SCOPED_TRACE(from->name());
    EXPECT_REJECTED(Ping(from->netns(), {.destination = kWeb.in(v6())}));
    EXPECT_NO_ANSWER(
        Ping(from->netns(), {.destination = kUnallocated.in(v6()), .timeout = kShort}));
  }
  // S-84: echo requests to external addresses are not modified.
  for (const Address& address : {kExternalIp, kLoadBalancerIp}) {
    EXPECT_EQ(Ping(client().netns(), {.destination = address.in(v6())}).outcome,
              Outcome::kAnswered);
  }
}

}  // namespace
}  // namespace svcmap::testing
