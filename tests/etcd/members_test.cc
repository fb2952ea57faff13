// Tests svcmap-etcd with three members of etcd that fail. SVCMAP_LEADER_KILLS=100 sets the number
// of killed leaders (default: 5).
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

  absl::Status StartSourceOfMembers(const std::string& silence) {
    std::vector<std::string> urls;
    for (int n = 0; n < 3; ++n) urls.push_back(absl::StrCat("http://127.0.0.1:", EtcdPort(n)));
    return StartSource({"--etcd-endpoints=" + absl::StrJoin(urls, ","), "--silence=" + silence});
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

  EtcdServer::Cluster members_;
};

TEST_F(MembersTest, NoChangeIsLostWhenLeadersAreKilled) {
  const int64_t kills = NumberFromEnvironment("SVCMAP_LEADER_KILLS", 3);
  ASSERT_OK(Put(Webs(20)));
  ASSERT_OK(StartSourceOfMembers("30"));
  ASSERT_OK(UntilSynced());
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
    change(10);
    ASSERT_OK(leader->Signal(SIGKILL));  // The next change is sent before the process has ended.
    change(10);
    if (kill % 2 == 0) {
      ASSERT_OK(Remove({WebKey(19)}));
    } else {
      ASSERT_OK(Put({Web(19, Ip(19))}));
    }
    ASSERT_OK(UntilSynced()) << "kill " << kill;
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
