#include "tests/bench/opponents/tool_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

using ::testing::HasSubstr;
using testing::NetNs;

class ToolRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(NetNs netns, NetNs::Create());
    netns_ = std::make_unique<NetNs>(std::move(netns));
  }
  absl::StatusOr<ToolRun> Shell(const std::string& script, const std::string& input = "") const {
    return RunTool({"sh", "-c", script}, input, *netns_, std::chrono::seconds(20));
  }

  std::unique_ptr<NetNs> netns_;
};

TEST_F(ToolRunTest, TheProgramFindsTheTextOnItsStandardInputInTheNamespace) {
  EXPECT_OK(Shell("test \"$(cat)\" = 'some text'", "some text"));
  EXPECT_OK(Shell("test \"$(ls /proc/self/net/dev_snmp6 | tr '\\n' ' ')\" = 'lo '"));
}

TEST_F(ToolRunTest, AFailureIsAnErrorThatQuotesStandardError) {
  const absl::Status status = Shell("echo why >&2; exit 3").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(status.message(), HasSubstr("exit 3: why"));
  EXPECT_THAT(Shell("kill -9 $$").status().message(), HasSubstr("signal 9"));
}

TEST_F(ToolRunTest, AMissingProgramIsNotFound) {
  EXPECT_EQ(RunTool({"no-such-program"}, "", *netns_, std::chrono::seconds(20)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ToolRunTest, WhatTakesTooLongIsKilled) {
  EXPECT_EQ(RunTool({"sleep", "100"}, "", *netns_, std::chrono::seconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ToolRunTest, ThePeakIsThatOfTheProgramNotOurs) {
  const std::string input(size_t{64} << 20, 'x');
  ASSERT_OK_AND_ASSIGN(const ToolRun run,
                       RunTool({"cat"}, input, *netns_, std::chrono::seconds(20)));
  EXPECT_GT(run.seconds, 0);
  EXPECT_GT(run.cpu_seconds, 0);
  EXPECT_GT(run.peak_rss_kib, 500);
  EXPECT_LT(run.peak_rss_kib, 32 << 10);
}

TEST_F(ToolRunTest, ChildrenOfTheProgramDoNotDisturb) {
  ASSERT_OK_AND_ASSIGN(const ToolRun run, Shell("for i in 1 2 3; do /bin/true; done"));
  EXPECT_GT(run.peak_rss_kib, 500);
}

}  // namespace
}  // namespace svcmap::bench
