// Tests of Services without endpoints, and of unallocated addresses in the service range.
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

// Two pods on a Linux bridge of the node. The bridge has the addresses of the pods' gateway.
class BridgeRejectTest : public ServiceFamilyTest {
 protected:
  void SetUp() override {
    ServiceFamilyTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(Ip(node().netns(), absl::StrCat("link add br0 type bridge\naddr add ", At(1).v4,
                                              "/28 dev br0\naddr add ", At(1).v6,
                                              "/80 dev br0 nodad\nlink set br0 up\n")));
    for (const int number : kPods) {
      ASSERT_OK_AND_ASSIGN(NetNs pod, NetNs::Create());
      ASSERT_OK(Ip(node().netns(),
                   absl::StrCat("link add br0p", number, " type veth peer name eth0 netns ",
                                pod.path(), "\nlink set br0p", number, " master br0 up\n")));
      ASSERT_OK(
          Ip(pod, absl::StrCat("link set eth0 up\naddr add ", At(number).v4,
                               "/28 dev eth0\naddr add ", At(number).v6, "/80 dev eth0 nodad\n")));
      pods_.push_back(std::move(pod));
    }
    for (const NetNs& pod : pods_) {
      for (const int number : {1, kPods[0], kPods[1]}) {
        ASSERT_OK(Eventually(absl::StrCat("an answer of ", At(number).in(v6())), [&] {
          return Ping(pod, {.destination = At(number).in(v6()), .timeout = kShort}).outcome ==
                 Outcome::kAnswered;
        }));
      }
    }
  }
  void TearDown() override {
    if (world() == nullptr) return;
    ServiceFamilyTest::TearDown();
    EXPECT_OK(CallIptables("1"));
    EXPECT_OK(Ip(node().netns(), "link del br0p2\nlink del br0p3\nlink del br0\n"));
  }

  // Address of the bridge (1) or of a pod.
  static Address At(int number) {
    return {absl::StrCat("10.244.1.", 64 + number), absl::StrCat("fd00:10:244:1:b::", number)};
  }
  static absl::Status Ip(const NetNs& netns, const std::string& batch) {
    return RunOk({.argv = {"ip", "-batch", "-"}, .netns = &netns, .stdin_text = batch}).status();
  }
  // Sets whether the hooks of IPv4 and IPv6 process bridged packets (br_netfilter).
  absl::Status CallIptables(const std::string& value) {
    return node().netns().WriteSysctl(
        v6() ? "net/bridge/bridge-nf-call-ip6tables" : "net/bridge/bridge-nf-call-iptables", value);
  }
  // Opens 20 connections from a pod to the clusterIP, with this gateway. The kernel would limit
  // ICMP errors, so each connection must be reset.
  void ExpectResets(const NetNs& pod, int gateway) {
    ASSERT_OK(Ip(
        pod, absl::StrCat("route replace ", kWeb.in(v6()), " via ", At(gateway).in(v6()), "\n")));
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(Rejected(Ask(pod, {.destination = kWeb.in(v6()), .port = 80})));
    }
  }

  static constexpr int kPods[] = {2, 3};
  std::vector<NetNs> pods_;
};
INSTANTIATE_FAMILIES(BridgeRejectTest);

TEST_P(BridgeRejectTest, S100_ConnectionsOfPodsOnABridgeAreReset) {
  ASSERT_OK(agent().Apply({Web("shop/web", kWeb)}));
  for (const char* value : {"0", "1"}) {
    SCOPED_TRACE(value);
    ASSERT_OK(CallIptables(value));
    for (const NetNs& pod : pods_) ExpectResets(pod, 1);
  }
  // The node only bridges packets whose gateway is the other pod.
  ExpectResets(pods_[0], kPods[1]);
  ExpectResets(pods_[1], kPods[0]);
}

}  // namespace
}  // namespace svcmap::testing
