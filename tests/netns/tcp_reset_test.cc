// Tests of --reset-stale-tcp and of the option of a Service that overrides this flag. An open
// connection to an endpoint that is gone is reset at the client's next write. Other connections are
// not affected.
#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

const Address kOther = ClusterIp(11);
constexpr char kMetric[] = "svcmap_conntrack_deleted_tcp_flows_total{";

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
      if (sample.starts_with(kMetric)) deleted += static_cast<int>(value);
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
