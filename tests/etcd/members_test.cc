// Tests svcmap-etcd with three members of etcd that fail. SVCMAP_LEADER_KILLS=100 sets the number
// of killed leaders (default: 3).
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>

#include "tests/etcd/etcd_world.h"
#include "tests/support/environment.h"

namespace svcmap::testing {
namespace {

using namespace std::chrono_literals;

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
