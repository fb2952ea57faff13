// Tests of `svcmapctl top`.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
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

// Returns the numbers of tracked connections in the output of `svcmapctl top` by endpoint.
std::map<std::string, double> Tracked(const std::string& out) {
  std::map<std::string, double> values;
  std::istringstream lines(out);
  std::string line, name;
  std::getline(lines, line);  // Summary.
  std::getline(lines, line);
  EXPECT_EQ(line, "    CONN/S      TRACKED  ENDPOINT");
  double rate = 0, total = 0;
  while (lines >> rate >> total >> name) values[name] = total;
  return values;
}

TEST_F(CtlTest, TopShowsTheEndpointsOfAService) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb), Web("shop/other", ClusterIp(11))} +
                          WebSlices("shop/web", {&pod_a(), &pod_b()}) +
                          WebSlices("shop/other", {&pod_a()})));
  std::map<std::string, double> expected;
  uint16_t source_port = 20000;
  const auto connect = [&](Protocol protocol, const std::string& destination, uint16_t port,
                           int count) {
    for (int i = 0; i < count; ++i) {
      // The kernel may select the port of an earlier connection, whose entry would be replaced.
      const Answer answer = Ask(client().netns(), {.protocol = protocol,
                                                   .destination = destination,
                                                   .port = port,
                                                   .source_port = source_port++});
      ASSERT_EQ(answer.outcome, Outcome::kAnswered) << answer.ToString();
      const Host& pod = answer.server == pod_a().name() ? pod_a() : pod_b();
      const bool v6 = destination.find(':') != std::string::npos;
      const std::string address = v6 ? "[" + pod.v6() + "]" : pod.v4();
      ++expected[address + ":8080/" + (protocol == Protocol::kTcp ? "TCP" : "UDP")];
    }
  };
  connect(Protocol::kTcp, kWeb.v4, 80, 200);
  connect(Protocol::kTcp, kNodeV4, kNodePort, 50);
  connect(Protocol::kUdp, kWeb.v6, 80, 20);
  const std::map<std::string, double> of_web = expected;
  connect(Protocol::kTcp, ClusterIp(11).v4, 80, 30);

  const CommandResult once = Ctl({"top", "--endpoints", "shop/web", "--interval", "1ms"});
  EXPECT_EQ(once.exit.code, 0) << once.err;
  const std::map<std::string, double> tracked = Tracked(once.out);
  for (const auto& [endpoint, count] : of_web) {
    const auto shown = tracked.find(endpoint);
    ASSERT_NE(shown, tracked.end()) << endpoint << "\n" << once.out;
    EXPECT_EQ(shown->second, count) << endpoint << "\n" << once.out;
  }
  EXPECT_EQ(tracked.size(), 12U) << once.out;  // 2 pods, 2 families and 3 protocols.
}

TEST_F(CtlTest, TopOfEndpointsNeedsPrivileges) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const absl::StatusOr<CommandResult> result =
      RunCommand({.argv = {"setpriv", "--bounding-set=-net_admin", SVCMAP_BIN_DIR "/svcmapctl",
                           "top", "--endpoints", "shop/web", "--address", agent().socket()},
                  .netns = &node().netns()});
  ASSERT_OK(result);
  EXPECT_EQ(result->exit.code, 1);
  EXPECT_THAT(result->err,
              HasSubstr("error: list connection tracking entries: Operation not permitted"));
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
