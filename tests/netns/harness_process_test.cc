// Tests of child processes and SCTP packets, the parts of the packet test harness that need no
// topology.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "nft/base/unique_fd.h"
#include "tests/support/process.h"
#include "tests/support/sctp_packet.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

TEST(SctpPacketTest, ChecksumVectorAndRoundTrip) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283u);
  SctpPacket packet;
  packet.source_port = 4711;
  packet.destination_port = 80;
  packet.chunk_type = kSctpInitAck;
  packet.initiate_tag = 7;
  packet.cookie = "hello";
  std::string bytes = BuildSctpPacket(packet);
  ASSERT_OK_AND_ASSIGN(const SctpPacket parsed, ParseSctpPacket(bytes));
  EXPECT_EQ(parsed.source_port, 4711);
  EXPECT_EQ(parsed.cookie, "hello");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_EQ(ParseSctpPacket(bytes).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ChildProcessTest, OutputExitAndEnvironment) {
  ASSERT_OK_AND_ASSIGN(
      const CommandResult result,
      RunCommand(
          {.argv = {"sh", "-c", "cat; echo $X >&2; exit 3"}, .env = {"X=y"}, .stdin_text = "in"}));
  EXPECT_EQ(result.out, "in");
  EXPECT_EQ(result.err, "y\n");
  EXPECT_EQ(result.exit.code, 3);
  EXPECT_FALSE(RunCommand({.argv = {"/no/such/program"}}).ok());
  EXPECT_EQ(RunCommand({.argv = {"sleep", "100"}}, std::chrono::milliseconds(50)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ChildProcessTest, SignalEndsIt) {
  ASSERT_OK_AND_ASSIGN(auto child, ChildProcess::Start({.argv = {"sleep", "100"}}));
  EXPECT_EQ(child->Wait(std::chrono::milliseconds(0)), std::nullopt);
  EXPECT_OK(child->Signal(SIGTERM));
  const auto exit = child->Wait(std::chrono::seconds(5));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGTERM);
  EXPECT_EQ(child->Signal(SIGTERM).code(), absl::StatusCode::kNotFound);
}

// Helper of DiesWithTheTest, which runs and kills this test. The test is disabled in normal runs.
TEST(ChildProcessTest, DISABLED_StartsAChildAndWaits) {
  ASSERT_OK_AND_ASSIGN(auto child, ChildProcess::Start({.argv = {"sleep", "1000"}}));
  std::printf("grandchild %d is up\n", child->pid());
  std::fflush(stdout);
  child->Wait(std::chrono::seconds(100));
}

TEST(ChildProcessTest, DiesWithTheTest) {
  ASSERT_OK_AND_ASSIGN(
      auto child, ChildProcess::Start({.argv = {"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                                "--gtest_filter=*StartsAChildAndWaits"}}));
  ASSERT_TRUE(child->WaitForOutput("is up\n", std::chrono::seconds(20)))
      << child->out() << child->err();
  const std::string out = child->out();
  const int pid = std::stoi(out.substr(out.find("grandchild ") + 11));
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_TRUE(pidfd.ok());
  ASSERT_OK(child->Signal(SIGKILL));
  pollfd ended = {pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10000), 1) << "the grandchild survived";
}

}  // namespace
}  // namespace svcmap::testing
