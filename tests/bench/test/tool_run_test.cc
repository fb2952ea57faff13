#include "tests/bench/opponents/tool_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

TEST(ToolRunTest, AnErrorQuotesTheExitStatusAndStandardError) {
  ASSERT_OK_AND_ASSIGN(const testing::NetNs netns, testing::NetNs::Create());
  const absl::Status status =
      RunTool({"sh", "-c", "echo why >&2; exit 3"}, "", netns, std::chrono::seconds(120)).status();
  EXPECT_THAT(status.message(), ::testing::HasSubstr("exit 3: why"));
}

}  // namespace
}  // namespace svcmap::bench
