// Runs svcmap-bench-fleet with a few nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

CommandResult RunBench(const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmap-bench-fleet", "--nodes=20",
                                   "--services=30", "--changes=5", "--behind=10"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  const auto result = RunCommand({.argv = argv}, 5 * kHangLimit);
  EXPECT_OK(result);
  return result.ok() ? *result : CommandResult();
}

TEST(FleetBenchTest, AllNodesReceiveAllChanges) {
  const CommandResult result = RunBench({"--tls"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("all 20 nodes have the written objects"));
  EXPECT_THAT(result.out, HasSubstr("\nlists 20, "));  // Resumed without a list.
}

TEST(FleetBenchTest, TheFloorAndHungWatchesAreMeasured) {
  const CommandResult result = RunBench({"--tls", "--behind-objects=20", "--hung=5", "--floor"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| 5 watches that never read |"));
  EXPECT_THAT(result.out, HasSubstr("| 20 streams | floor |"));
}

TEST(FleetBenchTest, ANodeWithoutAChangeIsReported) {
  const CommandResult result = RunBench({"--lose-change"});
  EXPECT_EQ(result.exit.code, 1) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("differ from the written objects on 1 of 20 nodes, for example n0"));
}

}  // namespace
}  // namespace svcmap::testing
