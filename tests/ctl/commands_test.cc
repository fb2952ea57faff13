// Tests of `svcmapctl support-bundle`, `completion` and `top` on a node.
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/ctl/ctl_world.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BundleTest : public CtlTest {
 protected:
  void SetUp() override {
    CtlTest::SetUp();
    if (HasFatalFailure()) return;
    absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_OK(folder);
    folder_.emplace(*std::move(folder));
    file_ = folder_->path() + "/bundle.tar.gz";
    absl::StatusOr<NetNs> elsewhere = NetNs::Create();
    ASSERT_OK(elsewhere);
    elsewhere_.emplace(*std::move(elsewhere));
  }

  // Runs svcmapctl in another namespace, where no agent is reachable.
  CommandResult Read(std::vector<std::string> args) {
    args.insert(args.begin(), {SVCMAP_BIN_DIR "/svcmapctl", "--bundle", file_});
    const absl::StatusOr<CommandResult> result = RunCommand(
        {.argv = args, .netns = &*elsewhere_, .env = {"SVCMAP_ADDRESS=unix:///nonexistent.sock"}});
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult();
  }
  // Returns a file of the bundle.
  std::string Extract(const std::string& name) {
    const absl::StatusOr<std::string> text = RunOk({.argv = {"tar", "-xzOf", file_, name}});
    EXPECT_OK(text);
    return text.value_or("");
  }

  std::optional<TemporaryFolder> folder_;
  std::optional<NetNs> elsewhere_;
  std::string file_;
};

TEST_F(BundleTest, FaultIsFoundWithoutTheNode) {
  const std::string log = folder_->path() + "/svcmapd.log";
  std::ofstream(log) << "recent line\n";
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  // The fault, and a UDP flow to an address that is not an endpoint.
  ASSERT_OK(RunNft(node().netns(),
                   absl::StrCat("table inet firewall { chain output {\n",
                                "type filter hook output priority 10; policy accept;\n",
                                "ip daddr ", pod_a().v4(), " tcp dport 8080 drop\n}\n}\n")));
  const CommandResult live_status = Ctl({"status"});
  const CommandResult live_get = Ctl({"get", "eps", "-o", "yaml"});
  const CommandResult live_dump = Ctl({"dump", "applied"});
  const CommandResult live_explain = Ctl({"explain", kWeb.v4 + ":80"});
  CommandResult made;
  WithFlow(40001, kWeb, "10.244.1.250", [&] {
    std::filesystem::remove(file_);
    made = Ctl({"support-bundle", file_, "--log", log});
  });
  ASSERT_OK(RunNft(node().netns(), "delete table inet firewall"));
  ASSERT_OK(FlushConntrack(node().netns()));
  ASSERT_EQ(made.exit.code, 0) << made.err;

  // The reader sees the difference, the cause and the rule.
  const std::string check = Extract("check.txt");
  EXPECT_THAT(check, HasSubstr(absl::StrCat("shop/web:tcp clusterIP ", kWeb.v4, ":80/TCP")));
  EXPECT_THAT(check, HasSubstr(absl::StrCat(
                         "foreign-rule: a rule of other software matches: \"ip "
                         "daddr ",
                         pod_a().v4(), " tcp dport 8080 drop\" in chain inet firewall output")));
  EXPECT_THAT(check, HasSubstr("conntrack-entry"));
  EXPECT_THAT(Extract("node/ruleset.nft"), HasSubstr("table inet firewall"));
  EXPECT_THAT(Extract("node/preflight.json"), HasSubstr("\"firewall\""));
  EXPECT_THAT(Extract("node/svcmap.nft"), HasSubstr(kWeb.v4 + " . tcp . 80"));
  EXPECT_THAT(
      Extract("node/conntrack.txt"),
      HasSubstr(absl::StrCat(kWeb.v4, ":80 -> 10.244.1.250:8080  1  ", pod_b().v4(), ":40001")));
  EXPECT_THAT(Extract("node/sysctls.txt"), HasSubstr("net.ipv4.ip_forward = 1\n"));
  EXPECT_THAT(Extract("node/system.txt"), HasSubstr("kernel   Linux"));
  EXPECT_THAT(Extract("node/network.txt"),
              AllOf(HasSubstr(pod_a().v4()), HasSubstr("\n# ip neighbour\n")));
  EXPECT_EQ(Extract("node/svcmapd.log"), "recent line\n");
  EXPECT_THAT(Extract("agent/metrics.txt"), HasSubstr("svcmap_build_info"));

  // The commands print the same as on the node.
  EXPECT_EQ(Read({"get", "eps", "-o", "yaml"}).out, live_get.out);
  EXPECT_EQ(Read({"dump", "applied"}).out.size(), live_dump.out.size());
  EXPECT_EQ(Read({"dump", "plan"}).out, "");
  EXPECT_EQ(Read({"explain", kWeb.v4 + ":80"}).out, live_explain.out);
  EXPECT_THAT(
      Read({"explain", absl::StrCat(kNodeV4, ":", kNodePort, "/UDP"), "--from", "node"}).out,
      HasSubstr("DNAT to"));
  const std::string status = Read({"status"}).out;
  EXPECT_THAT(status, AllOf(HasSubstr("on node n1"), HasSubstr("State        serving")));
  EXPECT_EQ(status.substr(0, status.find('\n')),
            live_status.out.substr(0, live_status.out.find('\n')));
}

// Tests of the completion scripts in real shells.
class CompletionTest : public CtlTest {
 protected:
  // Returns the candidates that bash offers for this command line.
  std::vector<std::string> Complete(const std::string& line) {
    const absl::StatusOr<std::string> out =
        RunOk({.argv = {"bash", "-c",
                        absl::StrCat("PATH=", SVCMAP_BIN_DIR, ":$PATH\n",
                                     "source <(svcmapctl completion bash)\n",
                                     "complete -p svcmapctl > /dev/null || exit 1\n", "COMP_LINE='",
                                     line, "'\nCOMP_POINT=${#COMP_LINE}\n_svcmapctl\n",
                                     "printf '%s\\n' \"${COMPREPLY[@]}\"")},
               .netns = &node().netns(),
               .env = {"SVCMAP_ADDRESS=" + agent().socket()}});
    EXPECT_OK(out);
    return absl::StrSplit(out.value_or(""), '\n', absl::SkipEmpty());
  }
};

TEST_F(CompletionTest, BashCompletesCommandsOptionsAndNames) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/api", ClusterIp(11))}));
  EXPECT_THAT(Complete("svcmapctl sta"), ElementsAre("status"));
  EXPECT_THAT(Complete("svcmapctl "), Contains("support-bundle"));
  EXPECT_THAT(Complete("svcmapctl get svc shop/"), ElementsAre("shop/api", "shop/web"));
  EXPECT_THAT(Complete("svcmapctl get eps "), ElementsAre());
  EXPECT_THAT(Complete("svcmapctl get no "), ElementsAre("n1"));
  EXPECT_THAT(Complete("svcmapctl get svc -n "), ElementsAre("shop"));
  EXPECT_THAT(Complete("svcmapctl get svc,no "), ElementsAre("n1", "shop/api", "shop/web"));
  EXPECT_THAT(Complete("svcmapctl delete -n shop svc "), ElementsAre("api", "web"));
  EXPECT_THAT(Complete("svcmapctl top --endpoints shop/w"), ElementsAre("shop/web"));
  EXPECT_THAT(Complete("svcmapctl get --namespace=s"), ElementsAre("shop"));
  EXPECT_THAT(Complete("svcmapctl get svc -o j"), ElementsAre("json"));
  EXPECT_THAT(Complete("svcmapctl check --no"), ElementsAre("--no-endpoints"));
  // Bash replaces only the part after the last colon or equal sign.
  EXPECT_THAT(Complete("svcmapctl explain 10.96.0.10:80/U"), ElementsAre("80/UDP"));
  EXPECT_THAT(Complete("svcmapctl get svc --output=w"), ElementsAre("wide"));
}

// Tests of `svcmapctl top`.

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
