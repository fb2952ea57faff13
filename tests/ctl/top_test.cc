// Tests of `svcmapctl top`.
#include <gmock/gmock.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "tests/ctl/ctl_world.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(CtlTest, TopShowsConnectionsPerSecond) {
  ASSERT_OK(world()->RestartAgent({"--service-counters"}));
  ASSERT_OK(agent().Apply(Objects{Web("shop/busy", kWeb), Web("shop/idle", ClusterIp(11))} +
                          WebSlices("shop/busy", {&pod_a()}) + WebSlices("shop/idle", {&pod_a()})));
  std::atomic<bool> stop = false;
  std::atomic<int> connections = 0;
  std::thread traffic([&] {
    while (!stop) {
      connections += AskMany(client().netns(), {.destination = kWeb.v4, .port = 80}, 5).answered;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const auto start = std::chrono::steady_clock::now();
  std::string line;
  const absl::Status shown = Eventually("top shows the busy Service", [&] {
    const CommandResult result = Ctl({"top", "--once", "--interval", "2s"});
    EXPECT_EQ(result.exit.code, 0) << result.err;
    std::istringstream lines(result.out);
    std::getline(lines, line);  // Summary.
    std::getline(lines, line);
    EXPECT_EQ(line, "    CONN/S        TOTAL  SERVICE");
    std::getline(lines, line);
    return line.ends_with("shop/busy") && result.out.ends_with("         0  shop/idle\n");
  });
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  stop = true;
  traffic.join();
  EXPECT_OK(shown) << line;
  double rate = 0;
  double total = 0;
  std::istringstream(line) >> rate >> total;
  const double real = connections / time.count();
  EXPECT_GT(rate, real / 4) << line;
  EXPECT_LT(rate, real * 4) << line;
  EXPECT_LE(total, connections);
  const CommandResult sorted =
      Ctl({"top", "--sort", "name", "--by", "destination", "--rows", "1", "--interval", "1ms"});
  EXPECT_THAT(sorted.out, HasSubstr("shop/busy 80/SCTP 10.96.0.10:80\n"));
  EXPECT_OK(world()->RestartAgent({}));
}

TEST_F(CtlTest, TopWithoutCountersIsAnError) {
  const CommandResult result = Ctl({"top"});
  EXPECT_EQ(result.exit.code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("error: http://127.0.0.1:10249/metrics contains no connection counters: "
                        "svcmapd runs without --service-counters"));
}

}  // namespace
}  // namespace svcmap::testing
