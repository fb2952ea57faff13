// Tests of the clean-up and of the end of the agent.
#include <gmock/gmock.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/agent.h"
#include "tests/support/kernel_check.h"
#include "tests/support/netns.h"
#include "tests/support/nft.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using LifecycleTest = ServiceTest;
using ::testing::HasSubstr;

// The container of deploy/kubernetes/cleanup stays after the cleanup. It must not prevent the start
// of another svcmapd.
TEST_F(LifecycleTest, CleanupThatStaysLetsAnotherAgentStart) {
  ASSERT_OK(agent().Stop());
  world()->agent.reset();
  ASSERT_OK_AND_ASSIGN(
      const auto cleanup,
      testing::ChildProcess::Start(
          {.argv = {SVCMAP_BIN_DIR "/svcmapd", "--cleanup", "--stay", "--state-dir="},
           .netns = &node().netns()}));
  ASSERT_TRUE(cleanup->WaitForOutput("cleanup complete", kHangLimit));
  ASSERT_OK_AND_ASSIGN(const std::string tables, Nft(node().netns(), "list tables"));
  EXPECT_EQ(tables, "");
  ASSERT_OK(world()->RestartAgent({}));
  ASSERT_OK(cleanup->Signal(SIGTERM));
  const auto exit = cleanup->Wait(kHangLimit);
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->ok()) << exit->ToString();
}

// After a large response, a thread of gRPC polls for 10 s. svcmapd must not wait for this thread.
TEST_F(LifecycleTest, SigtermAfterALargeResponseEndsTheAgent) {
  Objects objects = Basics();
  for (int i = 0; i < 10000; ++i) {
    objects.push_back(AService(absl::StrCat("shop/many-", i))
                          .ClusterIp(absl::StrCat("10.96.", 64 + i / 250, ".", 1 + i % 250))
                          .Port("http", 80));
  }
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(agent().Replace(objects));
    ASSERT_OK(agent().Dump(v1::DumpRequest::APPLIED).status());
    const auto start = std::chrono::steady_clock::now();
    ASSERT_OK(agent().Stop());
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    world()->agent.reset();
    ASSERT_OK(world()->RestartAgent({}));
  }
  ASSERT_OK(agent().Replace(Basics()));
}

// Tests that only one agent runs per network namespace, independent of other users of the node.

constexpr uid_t kOtherUser = 65534;
constexpr uint32_t kLockPorts = 0x53000000;  // Must equal the value in nft/base/lock_sockets.h.
constexpr int kNftraceGroup = 9;

class LockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(NetNsAvailable());
    ASSERT_OK_AND_ASSIGN(netns_, NetNs::Create());
  }

  // Runs `fn` in the namespace as a user without capabilities.
  template <typename Fn>
  void AsOtherUser(Fn&& fn) const {
    netns_->Run([&] {
      ASSERT_EQ(syscall(SYS_setresuid, kOtherUser, kOtherUser, kOtherUser), 0);
      fn();
    });
  }

  absl::StatusOr<std::unique_ptr<Agent>> StartAgent() const {
    return Agent::Start(*netns_, {"--healthz-bind-address=", "--metrics-bind-address="});
  }

  std::optional<NetNs> netns_;
};

TEST_F(LockTest, AnotherUserCannotImitateTheLock) {
  std::vector<UniqueFd> squatters;
  AsOtherUser([&] {
    for (uint32_t i = 0; i < 200; ++i) {
      squatters.emplace_back(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
      sockaddr_nl address = {};
      address.nl_family = AF_NETLINK;
      address.nl_pid = kLockPorts + i;
      ASSERT_EQ(
          bind(squatters.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
      ASSERT_NE(setsockopt(squatters.back().get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
                           &kNftraceGroup, sizeof(kNftraceGroup)),
                0);
      ASSERT_EQ(errno, EPERM);
    }
  });
  EXPECT_OK(StartAgent());
}

TEST_F(LockTest, ASecondAgentEndsEvenIfItSharesNoFileWithTheFirst) {
  ASSERT_OK_AND_ASSIGN(const auto first, StartAgent());
  ASSERT_OK_AND_ASSIGN(const MountNs mounts, MountNs::Create());
  absl::Status second;
  mounts.Run([&] { second = StartAgent().status(); });
  EXPECT_THAT(second.ToString(),
              HasSubstr("another svcmapd already programs this network namespace"));
  EXPECT_OK(first->GetStatus());
}

TEST_F(LockTest, AnAgentWhoseSocketIsInUseCreatesNoTables) {
  ASSERT_OK_AND_ASSIGN(const auto first, StartAgent());
  absl::StatusOr<NetNs> other = NetNs::Create();
  ASSERT_OK(other);
  const absl::Status second =
      Agent::Start(
          *other,
          {"--healthz-bind-address=", "--metrics-bind-address=", "--listen=" + first->socket()})
          .status();
  EXPECT_THAT(second.ToString(), HasSubstr("another process listens on "));
  ASSERT_OK_AND_ASSIGN(const std::string tables, Nft(*other, "list tables"));
  EXPECT_EQ(tables, "");
  EXPECT_OK(first->GetStatus());
}

TEST_F(LockTest, OfAgentsThatStartTogetherOneRemains) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Agent>> agents;
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK_AND_ASSIGN(auto agent, Agent::Launch(*netns_, {"--healthz-bind-address=",
                                                               "--metrics-bind-address="}));
      agents.push_back(std::move(agent));
    }
    int running = 0;
    for (const auto& agent : agents) running += agent->WaitUntilItAnswers().ok() ? 1 : 0;
    EXPECT_EQ(running, 1);
  }
}

// Administrators save rulesets with nft(8). tests/contract tests that nft lists svcmapd's tables
// and loads its own listing.
class ListingTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    if (HasFatalFailure()) return;
    // nft cannot load records that a shorter timeout has updated ("timeout 1s expires 59m").
    ASSERT_OK(
        RunNft(node().netns(), "flush map ip svcmap affinity\nflush map ip6 svcmap affinity\n"));
  }
  std::vector<std::string> AgentFlags() override { return {"--answer-ping", "--port-ranges"}; }
};

// An administrator saves, flushes and restores the ruleset. The restored rules translate traffic,
// and the agent finds nothing to repair.
TEST_F(ListingTest, ASavedRulesetCanBeRestoredWhileNoAgentRuns) {
  const Address web = ClusterIp(10);
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", web)} + WebSlices("shop/web", {&pod_a()})));
  ASSERT_OK_AND_ASSIGN(const std::string listing,
                       ListNftProgram("nft", node().netns(), "list ruleset"));
  ASSERT_OK(agent().Kill());
  // The next tests need an agent, even if this test fails.
  const absl::Cleanup restart = [this] {
    world()->agent.reset();
    EXPECT_OK(world()->RestartAgent(AgentFlags()));
  };
  ASSERT_OK(RunNftProgram("nft", node().netns(), "flush ruleset\n"));
  ASSERT_OK(RunNftProgram("nft", node().netns(), listing));
  for (const bool v6 : {false, true}) {
    EXPECT_ANSWERED_BY(Ask(pod_b().netns(), {.destination = web.in(v6), .port = 80}), "pod-a",
                       pod_b().address(v6));
  }
}

}  // namespace
}  // namespace svcmap::testing
