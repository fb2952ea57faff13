// Tests that only one agent runs per network namespace, independent of other users of the node.
#include <gmock/gmock.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/agent.h"
#include "tests/support/kernel_check.h"
#include "tests/support/mount_ns.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kOtherUser = 65534;
constexpr uint32_t kLockPorts = 0x53000000;  // Must equal the value in nft/base/lock_sockets.h.
constexpr int kNftraceGroup = 9;

class LockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(NetNsAvailable());
    absl::StatusOr<NetNs> netns = NetNs::Create();
    ASSERT_OK(netns);
    netns_.emplace(*std::move(netns));
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

}  // namespace
}  // namespace svcmap::testing
