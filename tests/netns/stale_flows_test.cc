// Tests of the deletion of UDP flows to removed endpoints (S-237..S-249). A client with a constant
// source port must reach current endpoints.
#include <sys/wait.h>

#include <csignal>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/nft.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/transfer.h"

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

// Tests of the deletion of TCP and SCTP handshakes without a reply (S-242, S-249). A client retries
// from a constant source port.

// A host drops all TCP and SCTP packets that it receives, as if it did not exist.
class Silent {
 public:
  explicit Silent(const Host& host) : host_(host) {
    EXPECT_OK(RunNft(host.netns(),
                     "table inet silent { chain c { type filter hook prerouting priority -400; "
                     "meta l4proto { tcp, sctp } drop; }\n}\n"));
  }
  ~Silent() { EXPECT_OK(RunNft(host_.netns(), "delete table inet silent\n")); }

 private:
  const Host& host_;
};

class StaleHandshakesTest : public ServiceFlowTest {
 protected:
  // The kernel deletes an SCTP handshake after 3 s. With a longer time, only svcmapd can delete it.
  void SetUp() override {
    ServiceFlowTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(SetCookieWait("120"));
  }
  void TearDown() override {
    if (world() == nullptr) return;
    EXPECT_OK(SetCookieWait("3"));
    ServiceFlowTest::TearDown();
  }
  absl::Status SetCookieWait(const std::string& seconds) {
    return node().netns().WriteSysctl("net/netfilter/nf_conntrack_sctp_timeout_cookie_wait",
                                      seconds);
  }
  Answer Retry(const Host& from, const Address& address, uint16_t port = 80) {
    Request request = InVain(address, port);
    request.source_port = 5353;
    return Ask(from, request);
  }
  void ExpectAnswer(const std::string& server, const Host& from, const Address& address,
                    uint16_t port = 80) {
    EXPECT_OK(Eventually(absl::StrCat(server, " answers"),
                         [&] { return Retry(from, address, port).server == server; }));
  }
};
INSTANTIATE_TEST_SUITE_P(, StaleHandshakesTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(Protocol::kTcp, Protocol::kSctp)),
                         FlowParamName);

TEST_P(StaleHandshakesTest, S242_S249_RetriesReachTheEndpointThatReplacesADeadOne) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const Silent silent(pod_a());
  const struct {
    const char* name;
    const Host* from;
    Address address;
    uint16_t port = 80;
  } ways[] = {{"clusterIP", &pod_b(), kWeb},
              {"clusterIP from the node", &node(), kWeb},
              {"external IP", &client(), kExternalIp},
              {"load balancer IP", &client(), kLoadBalancerIp},
              {"nodePort", &client(), kNode, kNodePort}};
  for (const auto& way : ways)
    EXPECT_NO_ANSWER(Retry(*way.from, way.address, way.port)) << way.name;
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name);
    ExpectAnswer("remote-pod", *way.from, way.address, way.port);
  }
}

TEST_P(StaleHandshakesTest, S242_RetriesThatWereForwardedBeforeTheServiceExistedReachIt) {
  const Silent silent(outside());
  EXPECT_NO_ANSWER(Retry(client(), kLoadBalancerIp));
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  ExpectAnswer("pod-a", client(), kLoadBalancerIp);
}

// svcmap rejects packets to a cluster IP that have no translation. The response to a SYN is a
// reset, which sets the entry to the state CLOSE. This entry would expire after 10 s.
TEST_P(StaleHandshakesTest, S242_RejectedRetriesReachTheServiceWhenTheirEntryIsDeleted) {
  const Silent silent(outside());
  EXPECT_NO_ANSWER(Retry(client(), kLoadBalancerIp));  // Forwarded to another host.
  const size_t begin = agent().log().size();
  ASSERT_OK(
      agent().Apply(Objects{Web("shop/web", kLoadBalancerIp)} + WebSlices("shop/web", {&pod_a()})));
  ExpectAnswer("pod-a", client(), kLoadBalancerIp);
  // The client can get its answer before the agent has written the line.
  const std::string line = "stale handshakes deleted count=1";
  EXPECT_OK(Eventually(line, [&] { return agent().log().find(line, begin) != std::string::npos; }));
}

// A pod can be slow, or drop a SYN, without leaving the Service.
TEST_P(StaleHandshakesTest, S242_HandshakesWithAnEndpointOfTheServiceAreKept) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/other", ClusterIp(11))} +
                          WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/other", {&pod_a()})));
  {
    const Silent silent(pod_a());
    EXPECT_NO_ANSWER(Retry(pod_b(), kWeb));
    EXPECT_NO_ANSWER(Retry(pod_b(), ClusterIp(11)));
    // The endpoint leaves one Service and is terminating in the other one.
    ASSERT_OK(agent().Apply(WithFirstTerminating(WebSlices("shop/web", {&pod_a(), &remote_pod()}),
                                                 /*serving=*/false) +
                            WebSlices("shop/other", {&remote_pod()})));
    EXPECT_OK(Eventually("remote-pod answers", [&] {
      EXPECT_NO_ANSWER(Retry(pod_b(), kWeb));  // Keeps the entry.
      return Retry(pod_b(), ClusterIp(11)).server == "remote-pod";
    }));
  }
  // The same entry still leads to the pod, which replies now.
  ExpectAnswer("pod-a", pod_b(), kWeb);
}

// Tests of --reset-stale-tcp and of the option of a Service that overrides this flag. An open
// connection to an endpoint that is gone is reset at the client's next write. Other connections are
// not affected.

const Address kOther = ClusterIp(11);
constexpr char kDeletedTcpFlows[] = "svcmap_conntrack_deleted_tcp_flows_total{";

absl::Status SetLoose(const Host& node, int value) {
  return RunOk({.argv = {"sysctl", "-qw",
                         absl::StrCat("net.netfilter.nf_conntrack_tcp_loose=", value)},
                .netns = &node.netns()})
      .status();
}

// The node drops all packets to a host, as if the host's address no longer existed.
class Vanished {
 public:
  Vanished(const Host& node, const Host& host) : node_(node), host_(host) { EXPECT_OK(Run("add")); }
  ~Vanished() { EXPECT_OK(Run("del")); }

 private:
  absl::Status Run(const std::string& verb) const {
    for (const bool v6 : {false, true}) {
      const auto run = RunOk({.argv = {"ip", v6 ? "-6" : "-4", "rule", verb, "to",
                                       host_.address(v6), "pref", "10", "blackhole"},
                              .netns = &node_.netns()});
      if (!run.ok()) return run.status();
    }
    return absl::OkStatus();
  }
  const Host& node_;
  const Host& host_;
};

class TcpResetTest : public ServiceFamilyTest {
 protected:
  void SetUp() override {
    ServiceFamilyTest::SetUp();
    if (HasFatalFailure()) return;
    if (Deleted() != 0) StartAgent(AgentFlags());
  }
  void TearDown() override {
    if (world() == nullptr) return;
    ServiceFamilyTest::TearDown();
    EXPECT_OK(SetLoose(node(), 1));
  }
  std::vector<std::string> AgentFlags() override { return {"--reset-stale-tcp"}; }
  // Starts an agent whose metrics are 0, and which reads `loose`. The last agent of a test must
  // have the default value 1, because other tests can use the same agent.
  void StartAgent(const std::vector<std::string>& flags, int loose = 1) {
    ASSERT_OK(SetLoose(node(), loose));
    ASSERT_OK(world()->RestartAgent(flags));
  }

  absl::StatusOr<TcpFlow> Open(const Host& from, const Address& address, uint16_t port = 80) {
    return TcpFlow::Open(from.netns(), {.destination = address.in(v6()), .port = port});
  }
  // Number of TCP flows that svcmapd has deleted.
  int Deleted() {
    const Samples samples = ReadMetrics(node().netns());
    EXPECT_FALSE(samples.empty());
    int deleted = 0;
    for (const auto& [sample, value] : samples) {
      if (sample.starts_with(kDeletedTcpFlows)) deleted += static_cast<int>(value);
    }
    return deleted;
  }
  void AwaitDeletions(int count) {
    ASSERT_OK(Eventually(absl::StrCat(count, " deletions"), [&] { return Deleted() >= count; }));
  }
  // Records the time of the reset, normally below 1 ms, in the test's result file.
  static void ExpectReset(TcpFlow& flow) {
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = flow.Exchange(100);
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    RecordProperty("reset_us", std::to_string(took / std::chrono::microseconds(1)));
  }

  struct Way {
    const char* name;
    const Host* from;
    Address address;
    uint16_t port = 80;
  };
  std::vector<Way> Ways() {
    return {{"clusterIP", &pod_b(), kWeb},
            {"external IP", &client(), kExternalIp},
            {"nodePort", &client(), kNode, kNodePort},
            {"clusterIP from the node", &node(), kWeb},
            {"nodePort from the node", &node(), kNode, kNodePort}};
  }
  // Opens a connection to pod_a for each way, replaces pod_a by `hosts` while pod_a's address
  // vanishes, and expects that each client's next write is reset.
  void ExpectResetsAfterReplacement(const std::vector<const Host*>& hosts) {
    ASSERT_OK(
        agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
    const int deleted = Deleted();
    std::vector<TcpFlow> flows;
    for (const Way& way : Ways()) {
      SCOPED_TRACE(way.name);
      auto flow = Open(*way.from, way.address, way.port);
      ASSERT_OK(flow);
      ASSERT_EQ(flow->answer().server, "pod-a");
      flows.push_back(*std::move(flow));
    }
    const Vanished vanished(node(), pod_a());
    ASSERT_OK(agent().Apply(WebSlices("shop/web", hosts)));
    AwaitDeletions(deleted + static_cast<int>(flows.size()));
    for (size_t i = 0; i < flows.size(); ++i) {
      SCOPED_TRACE(Ways()[i].name);
      ExpectReset(flows[i]);
    }
    EXPECT_EQ(Deleted(), deleted + static_cast<int>(flows.size()));
  }

  static v1::Object WithOption(v1::Object service, bool reset) {
    service.mutable_service()->mutable_spec()->set_reset_stale_tcp(reset);
    return service;
  }
  static v1::Object WithAnnotation(v1::Object service, const std::string& value) {
    v1::ObjectMeta& metadata = *service.mutable_service()->mutable_metadata();
    (*metadata.mutable_annotations())["svcmap/reset-stale-tcp"] = value;
    return service;
  }
  // Both Services have the same endpoint, which leaves both. Only the connection through `web` is
  // reset. The connection through `other` still reaches the endpoint.
  void ExpectOnlyWebReset(const v1::Object& web_service, const v1::Object& other_service) {
    ASSERT_OK(agent().Apply(Objects{web_service, other_service} +
                            WebSlices("shop/web", {&pod_a()}) +
                            WebSlices("shop/other", {&pod_a()})));
    auto web = Open(pod_b(), kWeb), other = Open(pod_b(), kOther);
    ASSERT_OK(web);
    ASSERT_OK(other);
    ASSERT_OK(agent().Apply(WebSlices("shop/other", {&remote_pod()})));
    ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
    AwaitDeletions(1);
    ExpectReset(*web);
    EXPECT_OK(other->Exchange(100));
    EXPECT_EQ(Deleted(), 1);
  }
  // Sets, chains and rules of the family's table.
  std::string Listing() {
    const auto text =
        Nft(node().netns(), absl::StrCat("-s -t list table ", v6() ? "ip6" : "ip", " svcmap"));
    EXPECT_OK(text);
    return text.ok() ? *text : "";
  }
};
INSTANTIATE_FAMILIES(TcpResetTest);

TEST_P(TcpResetTest, TheNextWriteToAnEndpointThatIsGoneIsReset) {
  for (const int loose : {0, 1}) {
    SCOPED_TRACE(loose);
    StartAgent(AgentFlags(), loose);
    ExpectResetsAfterReplacement({&remote_pod()});
    ExpectResetsAfterReplacement({});
  }
}

// An endpoint that leaves and returns keeps its connections.
TEST_P(TcpResetTest, AnEndpointThatReturnsWithinASecondKeepsItsConnections) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/other", kOther)} +
                          WebSlices("shop/web", {&pod_a()}) + WebSlices("shop/other", {&pod_a()})));
  auto web = Open(pod_b(), kWeb), other = Open(pod_b(), kOther);
  ASSERT_OK(web);
  ASSERT_OK(other);
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_a(), &remote_pod()})));
  ASSERT_OK(agent().Apply(WebSlices("shop/other", {&remote_pod()})));
  AwaitDeletions(1);
  EXPECT_OK(web->Exchange(100));
  ExpectReset(*other);
}

// The endpoint leaves while svcmapd is not running. The saved state contains the endpoint.
TEST_P(TcpResetTest, AnEndpointThatLeftDuringARestartIsGone) {
  const absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_OK(folder);
  const std::vector<std::string> flags = {"--reset-stale-tcp", "--state-dir", folder->path()};
  const Objects web = Basics() + Objects{Web("shop/web", kWeb)};
  ASSERT_OK(world()->RestartAgent(flags, web + WebSlices("shop/web", {&pod_a(), &remote_pod()})));
  absl::StatusOr<TcpFlow> flow = Open(pod_b(), kWeb);
  while (flow.ok() && flow->answer().server != "pod-a") flow = Open(pod_b(), kWeb);
  ASSERT_OK(flow);
  // On a slow disk, svcmapd acknowledges objects before it has saved them. A commit after that
  // states in the kernel that they are saved, so that the next run uses them.
  ASSERT_OK(agent().WaitUntilSaved());
  ASSERT_OK(agent().Apply({Web("shop/other", kOther)}));
  ASSERT_OK(agent().WaitUntilSaved());
  ASSERT_OK(world()->RestartAgent(flags, web + WebSlices("shop/web", {&remote_pod()})));
  AwaitDeletions(1);
  ExpectReset(*flow);
}

// Only the Service with the option is reset.
TEST_P(TcpResetTest, WithoutTheFlagAServiceCanOptIn) {
  for (const int loose : {0, 1}) {
    SCOPED_TRACE(loose);
    StartAgent({}, loose);
    ExpectOnlyWebReset(WithOption(Web("shop/web", kWeb), true), Web("shop/other", kOther));
  }
}

TEST_P(TcpResetTest, WithTheFlagAServiceCanOptOut) {
  for (const int loose : {0, 1}) {
    SCOPED_TRACE(loose);
    StartAgent(AgentFlags(), loose);
    ExpectOnlyWebReset(Web("shop/web", kWeb), WithAnnotation(Web("shop/other", kOther), "false"));
    if (loose != 0) continue;
    const auto keys = Nft(node().netns(),
                          absl::StrCat("list set ", v6() ? "ip6" : "ip", " svcmap reset-services"));
    ASSERT_OK(keys);
    EXPECT_NE(keys->find(kWeb.in(v6())), std::string::npos) << *keys;
    EXPECT_EQ(keys->find(kOther.in(v6())), std::string::npos) << *keys;
  }
}

// Returns true if the rules reset stale connections. `reject-chain` always contains a reset
// (S-100).
bool ResetsStaleConnections(const std::string& listing) {
  const std::string reset = "tcp reset";
  return listing.find(reset) != listing.rfind(reset);
}

TEST_P(TcpResetTest, RulesExistWhileAServiceNeedsThem) {
  for (const int loose : {0, 1}) {
    SCOPED_TRACE(loose);
    StartAgent({}, loose);
    const v1::Object web = Web("shop/web", kWeb);
    ASSERT_OK(agent().Apply(Objects{web, Web("shop/other", kOther)}));
    const std::string before = Listing();
    ASSERT_OK(agent().Apply(Objects{WithAnnotation(web, "true")}));
    EXPECT_NE(Listing(), before);
    EXPECT_TRUE(ResetsStaleConnections(Listing()));
    ASSERT_OK(agent().Apply(Objects{web}));
    EXPECT_EQ(Listing(), before);
  }
}

}  // namespace
}  // namespace svcmap::testing
