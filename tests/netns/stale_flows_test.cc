// Tests of the deletion of UDP flows to removed endpoints (S-237..S-249). A client with a constant
// source port must reach current endpoints.
#include <sys/wait.h>

#include <csignal>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/nft.h"

namespace svcmap::testing {
namespace {

const Address kDns = ClusterIp(53);
constexpr uint16_t kStaleSourcePort = 5353;

class StaleFlowsTest : public ServiceFamilyTest {
 protected:
  Request Udp(const Address& address, uint16_t port) {
    return {.protocol = Protocol::kUdp,
            .destination = address.in(v6()),
            .port = port,
            .source_port = kStaleSourcePort};
  }
  Answer AskFlow(const Host& from, const Address& address, uint16_t port = 80) {
    return Ask(from.netns(), Udp(address, port));
  }
  // Sends SIGSTOP to the agent, and returns after all its threads have stopped.
  void Suspend() {
    ASSERT_EQ(kill(agent().pid(), SIGSTOP), 0);
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(agent().pid()), &info, WSTOPPED), 0);
    ASSERT_EQ(info.si_code, CLD_STOPPED);
  }
};
INSTANTIATE_FAMILIES(StaleFlowsTest);

TEST_P(StaleFlowsTest, S245_AFlowFollowsWhenItsEndpointIsReplaced) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/dns", kDns)} + WebSlices("shop/dns", {&pod_a()})));
  const struct {
    const char* name;
    const Host* from;
    Address address;
    uint16_t port;
  } ways[] = {{"clusterIP", &pod_b(), kDns, 80},
              {"external IP", &client(), kExternalIp, 80},
              {"load balancer IP", &client(), kLoadBalancerIp, 80},
              {"nodePort", &client(), kNode, kNodePort},
              {"clusterIP from the node", &node(), kDns, 80}};
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name);
    EXPECT_EQ(AskFlow(*way.from, way.address, way.port).server, "pod-a");
  }
  ASSERT_OK(agent().Apply(WebSlices("shop/dns", {&remote_pod()})));
  for (const auto& way : ways) {
    EXPECT_OK(Eventually(absl::StrCat("the new endpoint by ", way.name), [&] {
      return AskFlow(*way.from, way.address, way.port).server == "remote-pod";
    }));
  }
}

// A client sends to a Service address without endpoints. When the first endpoint is added, the
// client's requests are answered.
TEST_P(StaleFlowsTest, S247_AFlowWithoutTranslationStartsAgain) {
  ASSERT_EQ(AskFlow(client(), kExternalIp).server, "outside");
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/dns", kDns)} + WebSlices("shop/dns", {&pod_a()})));
  EXPECT_OK(Eventually("the Service's endpoint",
                       [&] { return AskFlow(client(), kExternalIp).server == "pod-a"; }));
}

// A client sends while the tables are missing. Its flow would stay without translation as long as
// it sends.
TEST_P(StaleFlowsTest, S247_S345_AFlowThatPassedWithoutTablesStartsAgain) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/dns", kDns)} + WebSlices("shop/dns", {&pod_a()})));
  // Another table keeps connection tracking active.
  ASSERT_OK(RunNft(node().netns(),
                   "table inet other { chain c { type filter hook prerouting priority 0; ct state "
                   "new counter; }\n}\n"));
  ASSERT_NO_FATAL_FAILURE(Suspend());
  const absl::Status deleted =
      RunNft(node().netns(), "delete table ip svcmap\ndelete table ip6 svcmap\n");
  const Answer meanwhile = AskFlow(client(), kExternalIp);
  ASSERT_EQ(kill(agent().pid(), SIGCONT), 0);
  ASSERT_OK(deleted);
  EXPECT_EQ(meanwhile.server, "outside");
  EXPECT_OK(Eventually("the Service's endpoint",
                       [&] { return AskFlow(client(), kExternalIp).server == "pod-a"; }));
  ASSERT_OK(RunNft(node().netns(), "delete table inet other\n"));
}

// The kernel does not translate a connection whose first packet passed while no nat chain existed.
// The rules must not send its next packet to a descriptor, which can be a public address.
TEST_P(StaleFlowsTest, AFlowThatPassedWithoutNatIsNotSentToADescriptor) {
  constexpr uint16_t kPort = 9;  // No server listens on this port of the host "outside".
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/dns", kDns).Port("odd", kPort, Protocol::kUdp)} +
                    SlicesOf("shop/dns", {&pod_a()}, {{"odd", kPodPort, Protocol::kUdp}})));
  ASSERT_OK_AND_ASSIGN(const std::string tables,
                       ListNftProgram("nft", node().netns(), "list ruleset"));
  // The table keeps connection tracking active, and counts packets to other destinations.
  ASSERT_OK(
      RunNft(node().netns(),
             absl::StrCat("table inet other { chain c { type filter hook prerouting priority 0; "
                          "ct state new udp dport ",
                          kPort, v6() ? " ip6" : " ip", " daddr != ", kExternalIp.in(v6()),
                          " counter; }\n}\n")));
  ASSERT_OK(agent().Kill());
  const absl::Cleanup restart = [this] {
    world()->agent.reset();
    EXPECT_OK(RunNft(node().netns(), "delete table inet other\n"));
    EXPECT_OK(world()->RestartAgent({}));
  };
  ASSERT_OK(RunNft(node().netns(), "delete table ip svcmap\ndelete table ip6 svcmap\n"));
  EXPECT_EQ(AskFlow(client(), kExternalIp, kPort).outcome, Outcome::kRejected);
  ASSERT_OK(RunNftProgram("nft", node().netns(), tables));
  EXPECT_EQ(AskFlow(client(), kExternalIp, kPort).outcome, Outcome::kRejected);
  ASSERT_OK_AND_ASSIGN(const std::string counted, ListNft(node().netns(), "list table inet other"));
  EXPECT_NE(counted.find("counter packets 0 bytes 0"), std::string::npos) << counted;
  // A new flow is translated.
  Request request = Udp(kExternalIp, kPort);
  request.source_port = kStaleSourcePort + 1;
  EXPECT_EQ(Ask(client().netns(), request).server, "pod-a");
}

TEST_P(StaleFlowsTest, S242_S244_AFlowStaysWithAnEndpointThatServes) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/dns", kDns), Web("shop/other", ClusterIp(54))} +
                          WebSlices("shop/dns", {&pod_a()}) + WebSlices("shop/other", {&pod_b()})));
  ASSERT_EQ(AskFlow(pod_b(), kDns).server, "pod-a");
  ASSERT_EQ(AskFlow(client(), ClusterIp(54)).server, "pod-b");

  // The endpoint becomes serving-terminating, another endpoint is added, and the Service changes.
  AService service = Web("shop/dns", kDns);
  ASSERT_OK(agent().Apply(Objects{service.InternalPolicy("Local")} +
                          WithFirstTerminating(WebSlices("shop/dns", {&pod_a(), &remote_pod()}),
                                               /*serving=*/true)));
  // Wait for a complete cleanup pass. The deletion of another Service's flow shows that the cleanup
  // pass has finished.
  ASSERT_OK(agent().Apply(WebSlices("shop/other", {&remote_pod()})));
  ASSERT_OK(Eventually("the round",
                       [&] { return AskFlow(client(), ClusterIp(54)).server == "remote-pod"; }));
  EXPECT_EQ(AskFlow(pod_b(), kDns).server, "pod-a");
}

}  // namespace
}  // namespace svcmap::testing
