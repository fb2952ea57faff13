// Tests of external IPs, LoadBalancer IPs and nodePorts. The tests check answering endpoints,
// source addresses and untranslated packets.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"
#include "tests/support/raw_http.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// Tests that nodePorts are available on the node's current addresses. Also tests the mark bit that
// requests masquerading.

const Address kNewAddress = {"198.18.7.11", "fd00:78::11"};
constexpr char kBlocks[] = "198.18.7.0/24,fd00:78::/64";

class NodeAddressTest : public ServiceFlowTest {
 protected:
  void SetUp() override {
    ServiceFlowTest::SetUp();
    if (world() == nullptr) return;
    // The process answers connections to the node that no nodePort translates.
    ASSERT_OK_AND_ASSIGN(process_, EchoServer::Start(node().netns()));
    for (const Address& address : {kNode, kNodeSecond}) {
      ASSERT_OK(process_->Listen({protocol(), address.in(v6()), kNodePort, "node-process"}));
    }
  }

  Objects Serving() {
    return Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()});
  }
  // Returns the server that answers a new connection to the nodePort at `address`.
  std::string Answering(const Address& address) {
    EXPECT_OK(FlushConntrack(node().netns()));
    return Ask(client(), To(address, kNodePort)).server;
  }
  // Adds the new address to the node, expects that it accepts nodePorts, and deletes it.
  void ExpectNodePortsWhileTheNodeHasTheNewAddress() {
    ASSERT_OK(ChangeAddress("add"));
    EXPECT_OK(Eventually("nodePort on the new address",
                         [&] { return Answering(kNewAddress) == "pod-a"; }));
    ASSERT_OK(ChangeAddress("del"));
    EXPECT_OK(Eventually("no nodePort on the old address", [&] {
      const auto dump = agent().Dump(v1::DumpRequest::APPLIED);
      return dump.ok() && dump->find(kNewAddress.in(v6())) == std::string::npos;
    }));
  }
  absl::Status ChangeAddress(const char* verb) {
    return RunOk(
               {.argv = {"ip", "addr", verb,
                         absl::StrCat(kNewAddress.in(v6()), v6() ? "/128" : "/32"), "dev", "sink"},
                .netns = &node().netns()})
        .status();
  }

  std::unique_ptr<EchoServer> process_;
};
INSTANTIATE_FLOWS(NodeAddressTest);

TEST_P(NodeAddressTest, S109_TheNodeObjectMovesTheNodePorts) {
  ASSERT_OK(agent().Apply(Serving()));
  EXPECT_EQ(Answering(kNode), "pod-a");
  EXPECT_EQ(Answering(kNodeSecond), "node-process");
  ASSERT_OK(agent().Apply({ANode(kAgentNode).InternalIp(kNodeSecondV4).InternalIp(kNodeSecondV6)}));
  EXPECT_EQ(Answering(kNode), "node-process");
  EXPECT_EQ(Answering(kNodeSecond), "pod-a");
  ASSERT_OK(agent().Apply({ANode("another").InternalIp(kNodeV4).InternalIp(kNodeV6)}));
  EXPECT_EQ(Answering(kNode), "node-process");
}

// Packets to an address of the Node object that no interface has can belong to another host.
TEST_P(NodeAddressTest, S109_APrimaryAddressTakesNodePortsWhileAnInterfaceHasIt) {
  ASSERT_OK(agent().Apply(
      Serving() +
      Objects{ANode(kAgentNode).InternalIp(kNewAddress.v4).InternalIp(kNewAddress.v6)}));
  EXPECT_EQ(Answering(kNewAddress), "");
  EXPECT_EQ(Answering(kNode), "node-process");
  ExpectNodePortsWhileTheNodeHasTheNewAddress();
}

TEST_P(NodeAddressTest, S110_WithoutANodeObjectAllAddressesTakeNodePortsUntilItComes) {
  ASSERT_OK(agent().Replace(Serving()));
  EXPECT_EQ(Answering(kNode), "pod-a");
  EXPECT_EQ(Answering(kNodeSecond), "pod-a");
  ASSERT_OK(agent().Apply({ANode(kAgentNode).InternalIp(kNodeV4).InternalIp(kNodeV6)}));
  EXPECT_EQ(Answering(kNode), "pod-a");
  EXPECT_EQ(Answering(kNodeSecond), "node-process");
}

TEST_P(NodeAddressTest, S114_S172_AddressBlocksSayWhereNodePortsAre) {
  ASSERT_OK(world()->RestartAgent({"--nodeport-addresses", kBlocks}));
  ASSERT_OK(agent().Replace(Basics() + Serving()));
  EXPECT_EQ(Answering(kNode), "node-process");
  EXPECT_EQ(Answering(kNodeSecond), "pod-a");
  // Unlike kube-proxy, svcmapd applies the new address immediately.
  ExpectNodePortsWhileTheNodeHasTheNewAddress();
  EXPECT_EQ(Answering(kNodeSecond), "pod-a");
}

class MarkTest : public ServiceFlowTest {
 protected:
  void TearDown() override {
    EXPECT_OK(RunNft(node().netns(), "delete table inet probe\n"));
    ServiceFlowTest::TearDown();
  }
};
INSTANTIATE_FLOWS(MarkTest);

TEST_P(MarkTest, S99_TheMarkBitIsClearedAndTheOthersSurvive) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  // Rules before and after svcmap's chains set all mark bits except svcmap's mark bit.
  ASSERT_OK(RunNft(node().netns(),
                   "table inet probe {\n"
                   "counter kept { }\n"
                   "counter lost { }\n"
                   "counter ours { }\n"
                   "chain before { type filter hook prerouting priority -300;\n"
                   "th dport 80 meta mark set 0xffffbfff\n}\n"
                   "chain after { type filter hook postrouting priority 300;\n"
                   "th dport 8080 meta mark and 0x4000 != 0 counter name ours\n"
                   "th dport 8080 meta mark 0xffffbfff counter name kept\n"
                   "th dport 8080 meta mark != 0xffffbfff counter name lost\n}\n}\n"));
  const auto packets = [&](const std::string& counter) -> std::string {
    const absl::StatusOr<std::string> text = RunOk(
        {.argv = {"nft", "list", "counter", "inet", "probe", counter}, .netns = &node().netns()});
    EXPECT_OK(text);
    if (!text.ok()) return "";
    const size_t at = text->find("packets ") + 8;
    return text->substr(at, text->find(' ', at) - at);
  };
  // The source port is completely random, so it changes with a probability of more than 0.9999.
  int unchanged = 0;
  for (int i = 0; i < TriesToReachAll(1, 0.9999); ++i) {
    Request request = To(kExternalIp);
    request.source_port = static_cast<uint16_t>(4711 + i);
    const Answer answer = Ask(client(), request);
    EXPECT_ANSWERED_BY(answer, "pod-a", At(node()));
    unchanged += answer.seen_port == request.source_port ? 1 : 0;
  }
  EXPECT_LT(unchanged, TriesToReachAll(1, 0.9999));
  EXPECT_ANSWERED_BY(Ask(client(), To(kWeb)), "pod-a", At(node()));
  EXPECT_ANSWERED_BY(Ask(pod_b(), To(kWeb)), "pod-a", At(pod_b()));
  EXPECT_EQ(packets("ours"), "0");
  // The probe's rules match only packets to the Service, which have port 80 before and port 8080
  // after the translation.
  EXPECT_NE(packets("kept"), "0");
  EXPECT_EQ(packets("lost"), "0");
}

// Tests of TCP nodePorts on 127.0.0.1 and ::1, which svcmapd forwards itself.

constexpr uint16_t kAgentMetricsPort = 10249;
const std::vector<std::string> kLocalhostFlags = {"--nodeport-addresses", "primary,localhost"};
const Address kLoopbackOfNode = {"127.0.0.1", "::1"};

class LocalhostTest : public ServiceFamilyTest {
 protected:
  std::vector<std::string> AgentFlags() override { return kLocalhostFlags; }

  Request ToLoopback() {
    return {.destination = kLoopbackOfNode.in(v6()),
            .port = kNodePort,
            .timeout = std::chrono::seconds(5)};
  }
  Answer Connect() { return Ask(node().netns(), ToLoopback()); }
  // Waits until a connection has this outcome, because the forwarder applies changes after the Ack.
  void ExpectSoon(const std::string& server) {
    Answer last;
    EXPECT_OK(Eventually(absl::StrCat("answer of ", server), [&] {
      last = Connect();
      return last.outcome == Outcome::kAnswered && last.server == server;
    })) << last.ToString();
  }
  std::string Metrics() {
    const auto page = HttpRequest(node().netns(), "127.0.0.1", kAgentMetricsPort, "/metrics");
    return page.ok() ? page->body : page.status().ToString();
  }
};
INSTANTIATE_FAMILIES(LocalhostTest);

TEST_P(LocalhostTest, S113_LocalAndRemoteEndpoints) {
  for (const Host* pod : {&pod_a(), &remote_pod()}) {
    ASSERT_OK(agent().Replace(Basics() + Objects{ExternalWeb("shop/web", kWeb)} +
                              WebSlices("shop/web", {pod})));
    ExpectSoon(pod->name());
    Request request = ToLoopback();
    request.timeout = kHangLimit;
    ASSERT_OK_AND_ASSIGN(const Answer bulk, BulkTcp(node().netns(), request, size_t{10} << 20));
    EXPECT_EQ(bulk.server, pod->name());
  }
  // The node's address still works without the forwarder.
  EXPECT_EQ(Ask(client().netns(), {.destination = kNode.in(v6()), .port = kNodePort}).server,
            remote_pod().name());
  EXPECT_THAT(Metrics(),
              HasSubstr(absl::StrCat("kubeproxy_nftables_localhost_nodeport_listeners{ip_family=\"",
                                     v6() ? "IPv6" : "IPv4", "\"} 1\n")));
}

using LocalhostOffTest = ServiceTest;

// There is no socket with "primary", with "all", or if the flag disables it.
TEST_F(LocalhostOffTest, S113_DisabledByDefault) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"--nodeport-addresses", "all"},
      {"--no-localhost-nodeports", "--nodeport-addresses", "primary,localhost"}};
  for (const std::vector<std::string>& flags : cases) {
    ASSERT_OK(world()->RestartAgent(flags));
    ASSERT_OK(
        agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
    // Without these metrics, svcmapd has no object that could listen.
    const auto page = HttpRequest(node().netns(), "127.0.0.1", kAgentMetricsPort, "/metrics");
    ASSERT_OK(page);
    EXPECT_THAT(page->body, Not(HasSubstr("localhost_nodeport")));
    for (const bool v6 : {false, true}) {
      const Answer answer =
          Ask(node().netns(), {.destination = kLoopbackOfNode.in(v6), .port = kNodePort});
      EXPECT_EQ(answer.outcome, Outcome::kRejected) << answer;
    }
  }
}

// Tests of several ports, of nodePorts with --nodeport-addresses, and of removed EndpointSlices.

const Objects kNodePortOnly = [] {
  AService service("shop/web");
  service.ClusterIps(kV.v4, kV.v6);
  for (const Protocol protocol : kProtocols) {
    service.Port(ProtocolName(protocol), 80, protocol).NodePort(kNodePort);
  }
  return Objects{service};
}();

using PinnedFlowTest = FlowFamilyTest;
INSTANTIATE_FAMILIES(PinnedFlowTest);

// Tests two endpoints of a Service with five ports. The name of each server contains its port.
TEST_P(PinnedFlowTest, S157_S158_S159_EachPortHasItsOwnTarget) {
  const struct {
    const char* name;
    int port;
    Protocol protocol;
    int target;
  } ports[] = {{"http", 80, Protocol::kTcp, 9080},
               {"https", 443, Protocol::kTcp, 9443},
               {"dns-udp", 53, Protocol::kUdp, 53},
               {"dns-tcp", 53, Protocol::kTcp, 5353},
               {"dns-sctp", 53, Protocol::kSctp, 53}};
  AService service("shop/web");
  service.ClusterIps(kV.v4, kV.v6);
  ASlice slice("shop/web");
  for (const char* letters : {"L1", "R1"}) {
    slice.Endpoint(world()->cast.at(letters)->address(v6()), letters[0] == 'L' ? kAgentNode : "n2");
  }
  for (const auto& port : ports) {
    service.Port(port.name, port.port, port.protocol);
    slice.Port(port.name, port.target, port.protocol);
  }
  std::vector<std::unique_ptr<EchoServer>> servers;
  for (const char* letters : {"L1", "R1"}) {
    const Host& pod = *world()->cast.at(letters);
    ASSERT_OK_AND_ASSIGN(auto server, EchoServer::Start(pod.netns()));
    for (const auto& port : ports) {
      ASSERT_OK(
          server->Listen({port.protocol, pod.address(v6()), static_cast<uint16_t>(port.target),
                          absl::StrCat(letters, ":", port.target)}));
    }
    servers.push_back(std::move(server));
  }
  ASSERT_OK(agent().Apply({service, slice}));
  Expect({"P -> V:80", "L1:9080,R1:9080 -"});
  Expect({"P -> V:443", "L1:9443,R1:9443 -"});
  Expect({"P -> V:53/tcp", "L1:5353,R1:5353 -"});
  Expect({"P -> V:53/udp", "L1:53,R1:53 -"});
  Expect({"P -> V:53/sctp", "L1:53,R1:53 -"});
}

TEST_P(PinnedFlowTest, S181_TheSliceIsDeleted) {
  for (const char* policy : {"Cluster", "Local"}) {
    SCOPED_TRACE(policy);
    ASSERT_OK(agent().Apply(Objects{Web("shop/web", kV).InternalPolicy(policy)} +
                            Slices(*world(), "shop/web", "L1 R1")));
    ASSERT_OK(agent().Remove({SliceRef("shop/web-v4"), SliceRef("shop/web-v6")}));
    Expect({"P -> V:80", "REJECT"});
  }
}

// The configuration selects the addresses that accept nodePorts.
class NodePortBlocks : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override {
    return {"--nodeport-addresses", "192.168.77.0/24,198.18.7.0/24,fd00:77::/64,fd00:78::10/128"};
  }
};

TEST_P(NodePortBlocks, Row) { Check(); }

// Loopback addresses are not in the blocks.
INSTANTIATE_ROWS(NodePortBlocks, std::vector<Row>{
                                     {"S111_S142_S172", "AllBlocks", kNodePortOnly, "L1 R1",
                                      Each({"X", "N"}, {"N:NP", "N2:NP"}, "L1,R1 m") +
                                          Flows{{"N -> LO:NP", "untouched"}}},
                                     {"S102", "NoEndpoints", kNodePortOnly, "",
                                      Each({"X", "P", "N"}, {"N:NP", "N2:NP"}, "REJECT")},
                                 });

}  // namespace
}  // namespace svcmap::testing
