// Tests of Services without endpoints, and of unallocated addresses in the service range.
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"
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

// Tests of connections whose endpoint has the same address, port and protocol as their destination,
// for example an ingress controller in the host network whose Service has the node addresses as
// external IPs. `dnat` does not change such a connection.
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

// Tests of loadBalancerSourceRanges, which restrict the sources that may connect to a LoadBalancer
// IP.

AService WithRanges(AService service, const Names& ranges) {
  for (const std::string& range : ranges) service.SourceRange(range);
  return service;
}

Objects Ranges(const Names& ranges) { return {WithRanges(ExternalWeb("shop/web", kV), ranges)}; }

// The ranges in kClientRanges contain the client address X, but not B.
const Names kClientRanges = {"203.0.113.0/25", "2001:db8:203::/121"};
const Names kPods = {"10.244.1.0/24", "fd00:10:244:1::/64"};
const Names kNowhere = {"192.0.2.0/24", "2001:db8:2::/64"};
const Names kNodeAndClients = {"192.168.77.0/24", "198.18.7.0/24",  "fd00:77::/64",
                               "fd00:78::/64",    "203.0.113.0/25", "2001:db8:203::/121"};

Objects TwoAddresses(const Names& ranges) {
  return {WithRanges(ExternalWeb("shop/web", kV)
                         .LoadBalancerIp(kSecondLoadBalancerIp.v4)
                         .LoadBalancerIp(kSecondLoadBalancerIp.v6),
                     ranges)};
}

class SourceRanges : public FlowRowTest {};

TEST_P(SourceRanges, Row) { Check(); }

INSTANTIATE_ROWS(
    SourceRanges,
    std::vector<Row>{
        {"S116", "EveryProtocol", Ranges(kClientRanges), "L1",
         Each({"X"}, {"VIP:80", "VIP:80/udp", "VIP:80/sctp"}, "L1 m") +
             Each({"B"}, {"VIP:80", "VIP:80/udp", "VIP:80/sctp"}, "DROP")},
        {"S87_S117", "EverySource", Ranges(kNowhere), "L1",
         Each({"P", "L1", "Q", "R1", "N", "X", "B"}, {"VIP:80"}, "DROP")},
        {"S117", "PodsToo", Ranges(kPods), "L1",
         Each({"P"}, {"VIP:80"}, "L1 m") + Each({"Q", "N", "X"}, {"VIP:80"}, "DROP")},
        {"S117_S163_S164", "NotForOtherAddressesAndPorts", Ranges(kNowhere), "L1",
         Each({"P", "N", "X"}, {"EIP:80", "N:NP"}, "L1 m") + Each({"P"}, {"V:80"}, "L1 -") +
             Each({"N", "X"}, {"V:80"}, "L1 m") + Each({"P", "N", "X"}, {"VIP:81"}, "untouched")},
        {"S165_S166_S167", "TwoAddresses", TwoAddresses(kNodeAndClients), "L1",
         Each({"X", "N"}, {"VIP:80", "VIP2:80"}, "L1 m") +
             Each({"B", "P"}, {"VIP:80", "VIP2:80"}, "DROP")},
        {"S119_S148",
         "NoEndpoints",
         Ranges(kClientRanges),
         "",
         {{"X -> VIP:80", "REJECT"}, {"B -> VIP:80", "DROP"}, {"B -> EIP:80", "REJECT"}}},
        {"S121",
         "ExternalLocal",
         {WithRanges(ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kClientRanges + kPods)},
         "L1 R1",
         {{"X -> VIP:80", "L1 -"},
          {"P -> VIP:80", "L1,R1 -"},
          {"B -> VIP:80", "DROP"},
          {"N -> VIP:80", "DROP"},
          {"B -> EIP:80", "L1 -"}}},
        {"S121",
         "ExternalLocalWithRemoteEndpointsOnly",
         {WithRanges(ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kClientRanges + kPods)},
         "R1",
         {{"X -> VIP:80", "DROP"}, {"P -> VIP:80", "R1 -"}, {"B -> VIP:80", "DROP"}}},
        {"S120",
         "OverlappingRepeatedAndWithTheAddress",
         Ranges({"203.0.113.0/25", "203.0.113.0/24", "203.0.113.9/32", "203.0.113.0/25",
                 "198.51.100.20/32", "198.51.100.0/24", "2001:db8:203::/121", "2001:db8:203::/64",
                 "2001:db8:203::9/128", "2001:db8:203::/121", "2001:db8:51::20/128",
                 "2001:db8:51::/64"}),
         "L1",
         {{"X -> VIP:80", "L1 m"}, {"B -> VIP:80", "L1 m"}, {"P -> VIP:80", "DROP"}}},
        {"S11", "AnEntryForAllOpens", Ranges(kNowhere + Names{"0.0.0.0/0", "::/0"}), "L1",
         Each({"P", "N", "X", "B"}, {"VIP:80"}, "L1 m")},
    });

class SourceRangesTest : public FlowFamilyTest {
 protected:
  absl::Status Serve(const Names& ranges) {
    return agent().Apply(Ranges(ranges) + Slices(*world(), "shop/web", "L1"));
  }
};
INSTANTIATE_FAMILIES(SourceRangesTest);

TEST_P(SourceRangesTest, S116_RangesThatChangeTakeEffectAtOnce) {
  const struct {
    Names ranges;
    const char* client;
    const char* pod;
  } steps[] = {{{}, "L1 m", "L1 m"},       {kClientRanges, "L1 m", "DROP"},
               {kPods, "DROP", "L1 m"},    {kClientRanges + kPods, "L1 m", "L1 m"},
               {kNowhere, "DROP", "DROP"}, {kNowhere + kClientRanges, "L1 m", "DROP"},
               {{}, "L1 m", "L1 m"}};
  for (const auto& step : steps) {
    ASSERT_OK(Serve(step.ranges));
    Expect({"X -> VIP:80", step.client});
    Expect({"P -> VIP:80", step.pod});
  }
  // The next Service with the same address does not inherit the ranges.
  ASSERT_OK(Serve(kNowhere));
  ASSERT_OK(agent().Remove({ServiceRef("shop/web")}));
  Expect({"X -> VIP:80", "untouched"});
  Expect({"N -> VIP:80", "untouched"});
}

TEST_P(SourceRangesTest, S101_S116_OpenConnectionsStay) {
  ASSERT_OK(Serve(kClientRanges));
  ASSERT_OK_AND_ASSIGN(
      TcpFlow flow,
      TcpFlow::Open(client().netns(), {.destination = kLoadBalancerIp.in(v6()), .port = 80}));
  ASSERT_OK(Serve(kNowhere));
  Expect({"X -> VIP:80", "DROP"});
  EXPECT_OK(flow.Exchange(100'000));
}

// The LoadBalancer IP is an address of the node, as with load balancers that forward packets
// without translation.
TEST_P(SourceRangesTest, S118_S168_TheLoadBalancerIpAsSource) {
  ASSERT_OK(ChangeNodeAddress("add", kLoadBalancerIp.in(v6())));
  ASSERT_OK(agent().Apply(TwoAddresses(kNodeAndClients) + Slices(*world(), "shop/web", "L1")));
  Expect({"VIP -> VIP:80", "L1 m"});
  Expect({"VIP -> VIP2:80", "L1 m"});
  // S-118: the packet is accepted only because a range contains the node's own address.
  ASSERT_OK(agent().Apply(TwoAddresses(kClientRanges)));
  Expect({"VIP -> VIP:80", "DROP"});
  Expect({"VIP -> VIP2:80", "DROP"});
  Expect({"X -> VIP:80", "L1 m"});
  ASSERT_OK(ChangeNodeAddress("del", kLoadBalancerIp.in(v6())));
}

// Ranges of one family do not restrict the other family.
TEST_P(SourceRangesTest, S12_RangesOfTheOtherFamilyLeaveThisOneOpen) {
  ASSERT_OK(Serve({kNowhere[v6() ? 0 : 1]}));
  for (const char* from : {"P", "N", "X", "B"}) Expect({absl::StrCat(from, " -> VIP:80"), "L1 m"});
  ASSERT_OK(Serve({kNowhere[v6() ? 1 : 0]}));
  for (const char* from : {"P", "N", "X", "B"}) Expect({absl::StrCat(from, " -> VIP:80"), "DROP"});
}

}  // namespace
}  // namespace svcmap::testing
