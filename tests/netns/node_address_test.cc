// Tests that nodePorts are available on the node's current addresses. Also tests the mark bit that
// requests masquerading.
#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"

namespace svcmap::testing {
namespace {

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

}  // namespace
}  // namespace svcmap::testing
