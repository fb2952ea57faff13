// Tests svcmap-etcd with an etcd that is full, slow or dead, with lost members, with objects that
// are too large, and with steps of the system clock.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/etcd/etcd_world.h"
#include "tests/support/environment.h"
#include "tests/support/shim_clock.h"

namespace svcmap::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr uint16_t kSecondProxyPort = 2376;

class FailuresTest : public EtcdTest {
 protected:
  absl::Status UntilMetricIsAtLeast(const std::string& name, uint64_t value) {
    return Eventually(absl::StrCat(name, " of at least ", value),
                      [&] { return Metric(name) >= value; });
  }

  // svcmap-etcd makes a new connection only after a failure or a silence. gRPC makes a second one
  // if the handshake takes too long.
  void CheckConnections() {
    const int accepted = proxy_->accepted();
    EXPECT_LE(accepted, 2 * (1 + Metric("failures_total") + Metric("silences_total")));
  }
};

TEST_F(FailuresTest, AFullEtcdKeepsTheRules) {
  constexpr char kFull[] = "etcdserver: mvcc: database space exceeded";
  ASSERT_OK(RestartEtcd({"--quota-backend-bytes=2097152"}));
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--status-prefix", kStatusPrefix}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK_AND_ASSIGN(const CommandResult reached, FleetWait(writer_->seq()));
  ASSERT_TRUE(reached.exit.ok()) << reached.err;

  // The earlier versions of a key fill the database. etcd checks its size only after each interval
  // of commits, so the number of writes depends on the speed of the machine.
  absl::Status status;
  for (int i = 0; i < 500 && status.ok(); ++i) {
    status = writer_->Write({{"/filler", std::string(500'000, 'x')}});
  }
  ASSERT_EQ(status.message(), kFull);
  // etcd applies the transaction that exceeds the limit, although it returns an error.
  ASSERT_OK(writer_->Adopt());
  ASSERT_OK_AND_ASSIGN(const CommandResult applied,
                       FleetApply(api::ManifestYaml({Web(1, "10.96.99.1")})));
  EXPECT_EQ(applied.exit.code, 4);
  EXPECT_THAT(applied.err, HasSubstr(kFull));
  ASSERT_OK_AND_ASSIGN(const CommandResult waited, FleetWait(writer_->seq()));
  EXPECT_EQ(waited.exit.code, 4);
  EXPECT_THAT(waited.err, HasSubstr(kFull));

  // The status of the node changes, but cannot be written.
  ASSERT_OK(agent_->Kill());
  ASSERT_TRUE(Logged(absl::StrCat("writing the status failed, retrying key=", kStatusPrefix,
                                  "/nodes/n1 error=\"127.0.0.1:2378: ", kFull, "\"")));
  EXPECT_GE(Metric("status_failures_total"), 1u);
  agent_.reset();
  ASSERT_OK(StartAgent());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_OK(UntilMetric("failures_total", 0));
  ASSERT_OK_AND_ASSIGN(const CommandResult shown,
                       Fleet({"status", "--status-prefix", kStatusPrefix}));
  EXPECT_THAT(shown.out, HasSubstr("up to date         1\n"));

  // etcd may have applied a failed write after the writer has read the head.
  ASSERT_OK_AND_ASSIGN(const std::string etcd,
                       etcd_->Control({"endpoint", "status", "-w", "json"}));
  const int64_t revision = nlohmann::json::parse(etcd)[0]["Status"]["header"]["revision"];
  ASSERT_OK(etcd_->Control({"compact", "--physical", absl::StrCat(revision)}));
  ASSERT_OK(etcd_->Control({"defrag"}));
  ASSERT_OK(etcd_->Control({"alarm", "disarm"}));
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK_AND_ASSIGN(const CommandResult again, FleetWait(writer_->seq()));
  EXPECT_TRUE(again.exit.ok()) << again.err;
  // Only the first failure is logged.
  const std::vector<std::string> logged =
      absl::StrSplit(source_->err(), "writing the status failed");
  EXPECT_EQ(logged.size(), 2u) << source_->err();
}

TEST_F(FailuresTest, AnObjectThatIsTooLargeIsNamedAndDoesNotStopOthers) {
  ASSERT_OK(RestartEtcd({"--max-request-bytes=8388608"}));
  ASSERT_OK(agent_->Stop());
  agent_.reset();
  ASSERT_OK(StartAgent({"--max-batch-bytes=65536"}));
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());

  // svcmapd does not use this label, so svcmap-etcd does not send it.
  v1::Object labeled = Slice(1, "10.244.2.9");
  auto& labels = *labeled.mutable_endpoint_slice()->mutable_metadata()->mutable_labels();
  labels["example.com/large"] = std::string(5'000'000, 'x');
  ASlice endpoints = ASlice("shop/s2").Named("s2").Port("tcp", 8080);
  for (int n = 0; n < 900; ++n) {
    endpoints.Endpoint(absl::StrCat("10.244.", n / 250, ".", 1 + n % 250), std::string(90, 'n'));
  }
  const v1::Object large = endpoints;
  ASSERT_OK(writer_->Write({{EtcdKey(labeled), EtcdValue(labeled)},
                            {EtcdKey(large), EtcdValue(large)},
                            {WebKey(0), EtcdValue(Web(0, "10.96.99.1"))}}));
  Expect({Slice(1, "10.244.2.9"), Web(0, "10.96.99.1")});
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("refused_objects", 1));
  EXPECT_THAT(source_->err(), HasSubstr("EndpointSlice shop/s2 not sent: Too long: "));
  EXPECT_THAT(source_->err(),
              HasSubstr("must have at most 65536 bytes (--max-batch-bytes of svcmapd)"));

  // The earlier version also stays in effect after a snapshot.
  ASSERT_OK(StopSource());
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_OK(UntilMetric("refused_objects", 1));
  EXPECT_OK(UntilSynced());
  ASSERT_OK(Put({Slice(2, "10.244.2.1")}));
  EXPECT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("refused_objects", 0));
}

TEST_F(FailuresTest, ASlowEtcdCausesFewConnections) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--silence=3"}));
  ASSERT_OK(UntilSynced());
  proxy_->Delay(1s);  // An answer takes 2 s.
  for (int n = 0; n < 3; ++n) {
    ASSERT_OK(Put({Web(1, Ip(1000 + n))}));
    ASSERT_OK(UntilSynced());
  }
  CheckConnections();
  proxy_->Delay(10s);  // Each request times out.
  ASSERT_OK(UntilMetricIsAtLeast("failures_total", Metric("failures_total") + 3));
  CheckConnections();
  proxy_->Delay(0s);
  ASSERT_OK(Put({Web(1, Ip(2000))}));
  EXPECT_OK(UntilSynced());
  CheckConnections();
}

// The other proxy stands for another member.
TEST_F(FailuresTest, ADeadProxyDelaysChangesByAtMostTheSilence) {
  ASSERT_OK_AND_ASSIGN(const auto other, TcpProxy::Start(*netns_, kSecondProxyPort, kEtcdPort));
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(
      StartSource({"--silence=3", absl::StrCat("--etcd-endpoints=http://127.0.0.1:", kProxyPort,
                                               ",http://127.0.0.1:", kSecondProxyPort)}));
  ASSERT_OK(UntilSynced());
  ASSERT_EQ(proxy_->accepted() + other->accepted(), 1);
  (proxy_->accepted() == 1 ? proxy_ : other)->Delay(1h);
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  const auto written = std::chrono::steady_clock::now();
  ASSERT_OK(UntilSynced());
  EXPECT_LT(std::chrono::steady_clock::now() - written, OnThisMachine(3s + 10s));
  EXPECT_OK(UntilMetric("gaps_total", 1));
}

TEST_F(FailuresTest, StepsOfTheSystemClockHaveNoEffect) {
  ASSERT_OK_AND_ASSIGN(const auto clock, ShimClock::Make(folder_->path()));
  source_environment_ = clock->environment();
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  for (const auto step : {1h, -2h, 1h}) {
    clock->Step(step);
    ASSERT_OK(Put({Web(1, Ip(1000 + static_cast<int>(step.count())))}));
    ASSERT_OK(UntilSynced());
  }
  EXPECT_OK(UntilMetric("watches_total", 1));
  EXPECT_OK(UntilMetric("failures_total", 0));
  EXPECT_OK(UntilMetric("silences_total", 0));
}

TEST_F(FailuresTest, ADeadEtcdIsDetectedAfterTheClockWasSetBack) {
  ASSERT_OK_AND_ASSIGN(const auto clock, ShimClock::Make(folder_->path()));
  source_environment_ = clock->environment();
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--silence=2"}));
  ASSERT_OK(UntilSynced());
  proxy_->Delay(1h);
  ASSERT_OK(UntilMetricIsAtLeast("silences_total", 1));  // The head is read now.
  clock->Step(-1h);
  ASSERT_TRUE(Logged("reading from etcd failed"));
  proxy_->Delay(0s);
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  EXPECT_OK(UntilSynced());
}

// Tests svcmap-etcd with three members of etcd that fail. SVCMAP_LEADER_KILLS=100 sets the number
// of killed leaders (default: 3).
class MembersTest : public EtcdTest {
 protected:
  absl::Status StartEtcd() override {
    auto members = EtcdServer::StartCluster(*netns_, folder_->path(), 3);
    if (!members.ok()) return members.status();
    members_ = *std::move(members);
    writer_.emplace(members_, /*epoch=*/1);
    return absl::OkStatus();
  }

  static std::string Endpoints() {
    std::vector<std::string> urls;
    for (int n = 0; n < 3; ++n) urls.push_back(absl::StrCat("http://127.0.0.1:", EtcdPort(n)));
    return "--etcd-endpoints=" + absl::StrJoin(urls, ",");
  }
  absl::Status StartSourceOfMembers(const std::string& silence) {
    return StartSource({Endpoints(), "--silence=" + silence});
  }

  EtcdServer* Leader() {
    EtcdServer* leader = nullptr;
    WaitUntil([&] {
      for (const auto& member : members_) {
        if (member->IsLeader().value_or(false)) leader = member.get();
      }
      return leader != nullptr;
    });
    return leader;
  }

  // Starts svcmapd in its own namespace, and svcmap-etcd in the namespace of etcd.
  absl::Status StartNode(const std::string& name) {
    Node& node = nodes_.emplace_back();
    auto netns = NetNs::Create();
    if (!netns.ok()) return netns.status();
    node.netns = std::make_unique<NetNs>(*std::move(netns));
    const std::string address = "unix://" + folder_->path() + "/" + name + ".sock";
    std::vector<std::string> flags = kAgentFlags;
    flags.insert(flags.end(), {"--listen", address});
    auto agent = Agent::Start(*node.netns, flags);
    if (!agent.ok()) return agent.status();
    node.agent = *std::move(agent);
    auto source =
        ChildProcess::Start({.argv = {SVCMAP_BIN_DIR "/svcmap-etcd", "--prefix", prefix_, "--agent",
                                      address, "--node-name", name, "--list-delay=0", Endpoints()},
                             .netns = &*netns_});
    if (!source.ok()) return source.status();
    node.source = *std::move(source);
    return absl::OkStatus();
  }

  // Waits until all nodes have exactly the Services and EndpointSlices of the writer.
  absl::Status UntilAllSynced() {
    std::set<std::string> expected;
    for (const v1::Object& object : objects_) {
      if (!object.has_node()) expected.insert(EtcdKey(object) + EtcdValue(object));
    }
    for (const Node& node : nodes_) {
      const absl::Status synced = Eventually("the objects on each node", [&] {
        const absl::StatusOr<Objects> stored = node.agent->List();
        return stored.ok() && Encoded(*stored) == expected;
      });
      if (!synced.ok()) return synced;
    }
    return UntilSynced();
  }

  EtcdServer::Cluster members_;
  struct Node {
    std::unique_ptr<NetNs> netns;
    std::unique_ptr<Agent> agent;
    std::unique_ptr<ChildProcess> source;
  };
  std::vector<Node> nodes_;  // In addition to the node of EtcdTest.
};

// In each round, another writer that was deposed before the kill tries to write after the kill.
TEST_F(MembersTest, NoChangeIsLostWhenLeadersAreKilled) {
  const int64_t kills = NumberFromEnvironment("SVCMAP_LEADER_KILLS", 3);
  ASSERT_OK(Put(Webs(20)));
  ASSERT_OK(StartSourceOfMembers("30"));
  ASSERT_OK(StartNode("n2"));
  ASSERT_OK(StartNode("n3"));
  ASSERT_OK(UntilAllSynced());
  int changes = 0;
  const auto change = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ++changes;
      ASSERT_OK(Put({Web(changes % 20, Ip(1000 + changes % 20000))}));
    }
  };
  for (int64_t kill = 0; kill < kills; ++kill) {
    EtcdServer* leader = Leader();
    ASSERT_NE(leader, nullptr);
    EtcdWriter deposed(members_, /*epoch=*/0);
    ASSERT_OK(deposed.Adopt());
    change(10);
    ASSERT_OK(leader->Signal(SIGKILL));  // The next change is sent before the process has ended.
    ASSERT_TRUE(absl::IsAborted(deposed.Put({Web(18, "10.96.250.250")}))) << "kill " << kill;
    change(10);
    if (kill % 2 == 0) {
      ASSERT_OK(Remove({WebKey(19)}));
    } else {
      ASSERT_OK(Put({Web(19, Ip(19))}));
    }
    ASSERT_OK(UntilAllSynced()) << "kill " << kill;
    ASSERT_OK(leader->Stop());
    ASSERT_OK(leader->StartAgain());
  }
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_OK(UntilMetric("gaps_total", 0));
  EXPECT_OK(UntilMetric("histories_total", 0));
  EXPECT_OK(UntilMetric("foreign_total", 0));
  EXPECT_OK(agent_->CheckServing());
}

// svcmap-etcd is connected to one of the members. The stopped member keeps all connections open.
TEST_F(MembersTest, AStoppedMemberDelaysChangesByAtMostTheSilence) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSourceOfMembers("5"));
  ASSERT_OK(UntilSynced());
  for (int n = 0; n < 3; ++n) {
    ASSERT_OK(members_[n]->Signal(SIGSTOP));
    ASSERT_OK(Put({Web(1, Ip(1000 + n))}));
    const auto written = std::chrono::steady_clock::now();
    ASSERT_OK(UntilSynced());
    EXPECT_LT(std::chrono::steady_clock::now() - written, OnThisMachine(5s + 10s)) << n;
    ASSERT_OK(members_[n]->Signal(SIGCONT));
    ASSERT_OK(members_[n]->AwaitReady());
  }
  EXPECT_GE(Metric("silences_total") + Metric("failures_total"), 1u);
}

// The remaining member does not answer, because it has no leader.
TEST_F(MembersTest, RulesStayWithoutALeader) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSourceOfMembers("3"));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(members_[0]->Signal(SIGSTOP));
  ASSERT_OK(members_[1]->Signal(SIGSTOP));
  ASSERT_TRUE(Logged("reading from etcd failed"));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(agent_->CheckServing());
  ASSERT_OK(members_[0]->Signal(SIGCONT));
  ASSERT_OK(members_[1]->Signal(SIGCONT));
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  EXPECT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("histories_total", 0));
}

}  // namespace
}  // namespace svcmap::testing
