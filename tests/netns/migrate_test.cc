// Tests of the migration from kube-proxy to svcmapd on one node and back, under traffic.
// svcmap-bench generates kube-proxy's rules for each of its modes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/opponents/iptables_rules.h"
#include "tests/bench/opponents/nftables_rules.h"
#include "tests/support/agent.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/steady_traffic.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using bench::ServicePort;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint16_t kPodPort = 8080;
constexpr uint16_t kNodePort = 30080;
// Environment variable with the time in milliseconds for which kube-proxy must be absent. svcmapd's
// default is 30 s.
constexpr char kAbsence[] = "SVCMAP_TEST_KUBE_PROXY_ABSENCE_MS";

enum class Mode { kIptablesLegacy, kIptablesNft, kNftables };

std::string ModeName(Mode mode) {
  return mode == Mode::kIptablesLegacy ? "legacy" : mode == Mode::kIptablesNft ? "nft" : "nftables";
}

class MigrateTest : public PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    setenv(kAbsence, "200", 1);
    if (topology_ == nullptr) return;
    for (auto [host, made] : {std::pair(&pod_a_, topology_->AddLocalPod("pod-a")),
                              std::pair(&pod_b_, topology_->AddLocalPod("pod-b")),
                              std::pair(&caller_, topology_->AddLocalPod("caller")),
                              std::pair(&client_, topology_->AddClient("client"))}) {
      ASSERT_OK(made);
      *host = *made;
    }
    for (const Host* pod : {pod_a_, pod_b_}) {
      ASSERT_OK_AND_ASSIGN(auto server, EchoServer::StartAll(pod->netns(), pod->v4(), pod->v6(),
                                                             kPodPort, pod->name()));
      servers_.push_back(std::move(server));
    }
  }

  const NetNs& node() const { return topology_->node().netns(); }

  ServicePort Port(const std::string& name, const std::string& cluster_ip, proxy::Protocol protocol,
                   const Host& endpoint) const {
    ServicePort port;
    port.name_space = "shop";
    port.service = name;
    port.protocol = protocol;
    port.cluster_ip = *IpAddress::Parse(cluster_ip);
    port.port = 80;
    const bool v6 = port.family() == Family::kIpv6;
    port.endpoints = {{.address = {*IpAddress::Parse(endpoint.address(v6)), kPodPort}, .node = 0}};
    return port;
  }

  // Returns the Services. "web" and "dns" never change, and "moving" changes its endpoint.
  std::vector<ServicePort> Ports(const Host& moving) const {
    const auto tcp = proxy::Protocol::kTcp;
    const auto udp = proxy::Protocol::kUdp;
    std::vector<ServicePort> ports = {
        Port("web4", "10.96.0.10", tcp, *pod_a_),   Port("web6", "fd00:96::10", tcp, *pod_a_),
        Port("dns4", "10.96.0.11", udp, *pod_a_),   Port("dns6", "fd00:96::11", udp, *pod_a_),
        Port("moving4", "10.96.0.12", tcp, moving), Port("moving6", "fd00:96::12", tcp, moving)};
    ports[0].node_port = kNodePort;
    return ports;
  }

  static Objects ObjectsOf(const std::vector<ServicePort>& ports) {
    Objects objects = {ANode(kAgentNode).InternalIp(kNodeV4).InternalIp(kNodeV6),
                       AServiceCidr("kubernetes", {kServiceCidrV4, kServiceCidrV6})};
    for (const ServicePort& port : ports) {
      *objects.emplace_back().mutable_service() = bench::ServiceMessage(port);
      *objects.emplace_back().mutable_endpoint_slice() = bench::SliceMessage(port, 0);
    }
    return objects;
  }

  static std::string Program(Mode mode, Family family, const char* what) {
    return absl::StrCat(family == Family::kIpv4 ? "iptables-" : "ip6tables-", ModeName(mode), what);
  }
  absl::Status Restore(Mode mode, Family family, const std::string& text) const {
    return RunOk({.argv = {Program(mode, family, "-restore"), "-w", "5", "--noflush"},
                  .netns = &node(),
                  .stdin_text = text})
        .status();
  }

  // Loads the rules that kube-proxy creates when it starts.
  absl::Status LoadKubeProxy(Mode mode, const std::vector<ServicePort>& all) const {
    for (const Family family : kFamilies) {
      const bool v4 = family == Family::kIpv4;
      std::vector<ServicePort> ports;
      for (const ServicePort& port : all) {
        if (port.family() == family) ports.push_back(port);
      }
      const IpPrefix pods = *IpPrefix::Parse(v4 ? kClusterCidrV4 : kClusterCidrV6);
      if (mode == Mode::kNftables) {
        const bench::NftablesNode kube_node = {
            .ip = *IpAddress::Parse(v4 ? kNodeV4 : kNodeV6),
            .cluster_cidr = pods,
            .service_cidr = *IpPrefix::Parse(v4 ? kServiceCidrV4 : kServiceCidrV6)};
        if (absl::Status s = RunNft(node(), bench::NftablesFullSync(kube_node, ports)); !s.ok()) {
          return s;
        }
        continue;
      }
      bench::IptablesRules rules(family, {.cluster_cidr = pods, .node_ip = {}});
      for (const std::string& text : {rules.SetUp(), rules.FullSync(ports, /*clean_up=*/false)}) {
        if (absl::Status status = Restore(mode, family, text); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Loads rules of other processes in addition to kube-proxy's rules.
  absl::Status LoadForeign(Mode mode) const {
    if (mode == Mode::kNftables) {
      return RunNft(node(),
                    "table ip mine { chain c { type nat hook prerouting priority -90; "
                    "ip daddr 192.0.2.1 tcp dport 80 dnat to 192.0.2.2; }; }");
    }
    for (const Family family : kFamilies) {
      const std::string text =
          "*nat\n:MINE - [0:0]\n-A PREROUTING -p tcp --dport 81 -j MINE\n"
          "-A MINE -m comment --comment \"not -j KUBE-SERVICES\" -j RETURN\nCOMMIT\n"
          "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n"
          "*filter\n:KUBE-FIREWALL - [0:0]\n:KUBE-SOMETHING - [0:0]\n"
          "-A INPUT -j KUBE-FIREWALL\n-A FORWARD -j KUBE-SOMETHING\n"
          "-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\nCOMMIT\n";
      if (absl::Status status = Restore(mode, family, text); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Lists all rules of this iptables backend, or all nf_tables rules except svcmap's tables,
  // without counters and times.
  std::string Rules(Mode mode) const {
    std::string all;
    if (mode == Mode::kNftables) {
      const auto mine =
          RunCommand({.argv = {"nft", "list", "table", "ip", "mine"}, .netns = &node()});
      if (mine.ok()) all = mine->out;  // The output is empty if the test did not create the table.
    }
    for (const Family family : kFamilies) {
      std::vector<std::string> argv = {Program(mode, family, "-save")};
      if (mode == Mode::kNftables) {
        argv = {"nft", "-s", "list", "tables", family == Family::kIpv4 ? "ip" : "ip6"};
      }
      const auto text = RunOk({.argv = argv, .netns = &node()});
      EXPECT_OK(text);
      if (!text.ok()) return "";
      for (const auto& line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
        if (line[0] == '#' || absl::StrContains(line, "svcmap")) continue;
        absl::StrAppend(&all, std::regex_replace(std::string(line), std::regex("\\[.*\\]$"), ""),
                        "\n");
      }
    }
    return all;
  }

  // Returns the lines that do not refer to kube-proxy's chains.
  static std::string WithoutKubeProxy(const std::string& rules) {
    static const std::regex kOfKubeProxy(
        "KUBE-(SERVICES( |$)|EXTERNAL-SERVICES|NODEPORTS|POSTROUTING|FORWARD|MARK-MASQ|PROXY-|SVC-|"
        "SVL-|EXT-|FW-|SEP-)|kube-proxy");
    static const std::regex kQuoted("not -j KUBE-SERVICES");
    std::string rest;
    for (const auto& part : absl::StrSplit(rules, '\n', absl::SkipEmpty())) {
      const std::string line(part);
      if (!std::regex_search(line, kOfKubeProxy) || std::regex_search(line, kQuoted)) {
        rest += line + "\n";
      }
    }
    return rest;
  }

  // Opens long-lived and new connections from outside the cluster (masqueraded) and from a pod (not
  // masqueraded).
  absl::Status StartTraffic() {
    const auto target = [&](Protocol protocol, const std::string& to, uint16_t port,
                            uint16_t source_port) {
      return TrafficTarget{.request = {.protocol = protocol,
                                       .destination = to,
                                       .port = port,
                                       .source_port = source_port},
                           .servers = {pod_a_->name()}};
    };
    // UDP requests with a fixed source port form one conntrack flow, which lasts for the whole
    // test. All other UDP requests form short flows.
    const std::vector<TrafficTarget> cluster_ips = {
        target(Protocol::kTcp, "10.96.0.10", 80, 0), target(Protocol::kTcp, "fd00:96::10", 80, 0),
        target(Protocol::kUdp, "10.96.0.11", 80, 0), target(Protocol::kUdp, "10.96.0.11", 80, 5353),
        target(Protocol::kUdp, "fd00:96::11", 80, 5353)};
    std::vector<TrafficTarget> from_outside = cluster_ips;
    from_outside.push_back(target(Protocol::kTcp, kNodeV4, kNodePort, 0));
    for (const auto& [host, targets] :
         {std::pair(client_, from_outside), std::pair(caller_, cluster_ips)}) {
      auto started = SteadyTraffic::Start(
          host->netns(), {.targets = targets, .connect_every = std::chrono::milliseconds(2)});
      if (!started.ok()) return started.status();
      traffic_.push_back(*std::move(started));
    }
    return absl::OkStatus();
  }
  // New connections from outside the cluster are masqueraded, but connections from pods are not
  // (S-74, S-75).
  void GoOn() {
    for (const auto& traffic : traffic_) EXPECT_OK(traffic->Go(60));
    for (const char* ip : {"10.96.0.10", "fd00:96::10"}) {
      const bool v6 = absl::StrContains(ip, ":");
      EXPECT_NE(SourceOf(*client_, ip), client_->address(v6));
      EXPECT_EQ(SourceOf(*caller_, ip), caller_->address(v6));
    }
  }
  // Returns the source address that the pod sees, or "" if no packet arrives.
  static std::string SourceOf(const Host& caller, const std::string& ip) {
    const Answer answer = Ask(caller.netns(), {.destination = ip, .port = 80});
    EXPECT_EQ(answer.outcome, Outcome::kAnswered) << answer;
    return answer.seen_ip;
  }
  void EndTraffic() {
    for (const auto& traffic : traffic_) {
      const TrafficReport report = traffic->Stop();
      EXPECT_OK(report.Check());
      GTEST_LOG_(INFO) << report.ToString();
    }
  }

  std::string AnswererOf(const std::string& ip) const {
    const Answer answer = Ask(client_->netns(), {.destination = ip, .port = 80});
    return answer.outcome == Outcome::kAnswered ? answer.server : answer.ToString();
  }

  CommandResult MigrateCheck(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmapctl", "migrate", "check"};
    argv.insert(argv.end(), more.begin(), more.end());
    const auto result = RunCommand({.argv = argv, .netns = &node()});
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult{};
  }

  static absl::Status AwaitLog(const Agent& agent, const std::string& text, size_t times = 1) {
    const auto reported = [&] {
      const std::string log = agent.log();
      size_t count = 0;
      for (size_t at = 0; (at = log.find(text, at)) != std::string::npos; ++at) ++count;
      return count >= times;
    };
    if (WaitUntil(reported)) return absl::OkStatus();
    return absl::DeadlineExceededError(text + " in vain in\n" + agent.log());
  }

  const Host* pod_a_ = nullptr;
  const Host* pod_b_ = nullptr;
  const Host* caller_ = nullptr;
  const Host* client_ = nullptr;
  std::vector<std::unique_ptr<EchoServer>> servers_;
  std::vector<std::unique_ptr<SteadyTraffic>> traffic_;
};

constexpr char kRemoved[] = "all kube-proxy rules removed";

class TakeOverTest : public MigrateTest, public ::testing::WithParamInterface<Mode> {};
INSTANTIATE_TEST_SUITE_P(, TakeOverTest,
                         ::testing::Values(Mode::kIptablesLegacy, Mode::kIptablesNft,
                                           Mode::kNftables),
                         [](const auto& info) { return ModeName(info.param); });

TEST_P(TakeOverTest, S331_NothingFailsOnTheWayInAndOnTheWayBack) {
  const Mode mode = GetParam();
  ASSERT_OK(LoadForeign(mode));
  ASSERT_OK(LoadKubeProxy(mode, Ports(*pod_a_)));
  const std::string loaded = Rules(mode);
  ASSERT_NE(loaded, WithoutKubeProxy(loaded));
  ASSERT_OK(StartTraffic());
  GoOn();
  CommandResult check = MigrateCheck();
  EXPECT_EQ(check.exit.code, 8);
  EXPECT_THAT(
      check.out,
      HasSubstr(mode == Mode::kNftables
                    ? "ATTENTION  rules of kube-proxy in nftables mode: table ip kube-proxy "
                      "and table ip6 kube-proxy"
                    : absl::StrCat("ATTENTION  rules of kube-proxy in iptables-", ModeName(mode),
                                   ", for 3 addresses and 1 nodePort;")));

  // First phase: svcmapd runs in parallel with kube-proxy.
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Agent> agent, Agent::Start(node()));
  GoOn();
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  GoOn();
  EXPECT_EQ(Rules(mode), loaded);
  ASSERT_OK(agent->Stop());

  // Second phase: svcmapd removes kube-proxy's rules.
  ASSERT_OK_AND_ASSIGN(agent, Agent::Start(node(), {"--remove-kube-proxy"}));
  EXPECT_EQ(Rules(mode), loaded) << "removed before we serve";
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(AwaitLog(*agent, kRemoved));
  EXPECT_EQ(Rules(mode), WithoutKubeProxy(loaded));
  GoOn();
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_b_))));
  for (const char* ip : {"10.96.0.12", "fd00:96::12"}) EXPECT_EQ(AnswererOf(ip), "pod-b");
  check = MigrateCheck();
  EXPECT_EQ(check.exit.code, 0) << check.out;
  GoOn();

  // Third phase: rollback to kube-proxy.
  ASSERT_OK(LoadKubeProxy(mode, Ports(*pod_b_)));
  GoOn();
  ASSERT_OK(agent->Stop());
  ASSERT_OK(Agent::CleanUp(node()));
  GoOn();
  for (const char* ip : {"10.96.0.12", "fd00:96::12"}) EXPECT_EQ(AnswererOf(ip), "pod-b");
  EndTraffic();
}

TEST_F(MigrateTest, ACleanNodeHasNothingInTheWay) {
  const CommandResult check = MigrateCheck();
  EXPECT_EQ(check.out, "No problems found.\n");
  EXPECT_EQ(check.exit.code, 0);
  EXPECT_EQ(MigrateCheck({"-o", "json"}).out,
            "{\n  \"attention\": false,\n  \"findings\": []\n}\n");
  EXPECT_EQ(Rules(Mode::kNftables), "");
}

// A process that is named kube-proxy and does nothing.
class FakeKubeProxy {
 public:
  absl::Status Start(const NetNs& netns) {
    auto folder = TemporaryFolder::Make();
    if (!folder.ok()) return folder.status();
    folder_.emplace(*std::move(folder));
    const std::string program = folder_->path() + "/kube-proxy";
    std::filesystem::copy_file("/bin/sleep", program);
    auto started = ChildProcess::Start({.argv = {program, "100"}, .netns = &netns});
    if (!started.ok()) return started.status();
    process_ = *std::move(started);
    return absl::OkStatus();
  }
  void End() { process_ = nullptr; }
  std::string sign() const { return absl::StrCat("process ", process_->pid(), " is kube-proxy"); }

 private:
  std::optional<TemporaryFolder> folder_;
  std::unique_ptr<ChildProcess> process_;
};

constexpr char kNoService[] = "the complete state contains no Service";

TEST_F(MigrateTest, S330_WhileAKubeProxyRunsOrWeServeNothingNothingIsRemoved) {
  ASSERT_OK(LoadKubeProxy(Mode::kNftables, Ports(*pod_a_)));
  const std::string loaded = Rules(Mode::kNftables);
  FakeKubeProxy kube_proxy;
  ASSERT_OK(kube_proxy.Start(node()));
  EXPECT_THAT(MigrateCheck().out, AllOf(HasSubstr("NOTE       " + kube_proxy.sign()),
                                        HasSubstr("No problems found, 2 notes.")));

  ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(node(), {"--remove-kube-proxy"}));
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(AwaitLog(*agent, "kept until kube-proxy has exited reason=\"" + kube_proxy.sign()));
  // svcmapd removes kube-proxy's rules only if at least one Service is stored. Services that were
  // deleted before kube-proxy exited are ignored.
  ASSERT_OK(agent->Replace(ObjectsOf({})));
  kube_proxy.End();
  ASSERT_OK(AwaitLog(*agent, kNoService));
  EXPECT_EQ(Rules(Mode::kNftables), loaded);
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(AwaitLog(*agent, kRemoved));
  EXPECT_EQ(Rules(Mode::kNftables), "");

  // If kube-proxy starts again and exits, svcmapd removes kube-proxy's rules again.
  ASSERT_OK(kube_proxy.Start(node()));
  ASSERT_OK(AwaitLog(*agent, "kept until kube-proxy has exited reason=\"" + kube_proxy.sign()));
  ASSERT_OK(LoadKubeProxy(Mode::kNftables, Ports(*pod_a_)));
  kube_proxy.End();
  ASSERT_OK(AwaitLog(*agent, kRemoved, 2));
  EXPECT_EQ(Rules(Mode::kNftables), "");
}

// svcmapd does not run iptables while kube-proxy is running, because iptables takes seconds on
// large nodes.
TEST_F(MigrateTest, S330_AKubeProxyThatStartsAgainKeepsItsRules) {
  const Mode mode = Mode::kIptablesNft;
  ASSERT_OK(LoadKubeProxy(mode, Ports(*pod_a_)));
  const std::string loaded = Rules(mode);
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string ran = folder.path() + "/ran";
  for (const char* name : {"iptables-nft-save", "ip6tables-nft-save"}) {
    const std::string program = absl::StrCat(folder.path(), "/", name);
    std::ofstream(program) << "#!/bin/sh\ntouch " << ran << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  const std::string path = getenv("PATH");
  setenv("PATH", (folder.path() + ":" + path).c_str(), 1);
  setenv(kAbsence, "60000", 1);
  FakeKubeProxy kube_proxy;
  ASSERT_OK(kube_proxy.Start(node()));
  auto agent = Agent::Start(node(), {"--remove-kube-proxy"});
  setenv("PATH", path.c_str(), 1);
  ASSERT_OK(agent);
  ASSERT_OK((*agent)->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(AwaitLog(**agent, "kept until kube-proxy has exited reason=\"" + kube_proxy.sign()));
  kube_proxy.End();
  ASSERT_OK(AwaitLog(**agent, "no kube-proxy process found"));
  ASSERT_OK(kube_proxy.Start(node()));
  ASSERT_OK(AwaitLog(**agent, "kept until kube-proxy has exited reason=\"" + kube_proxy.sign()));
  EXPECT_EQ(Rules(mode), loaded);
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(MigrateTest, S330_WhatAPreviousRunWasToldRemovesNothing) {
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string state = "--state-dir=" + folder.path();
  ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(node(), {state}));
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(agent->WaitUntilSaved());
  ASSERT_OK(agent->Stop());
  ASSERT_OK(LoadKubeProxy(Mode::kNftables, Ports(*pod_a_)));
  const std::string loaded = Rules(Mode::kNftables);
  ASSERT_OK_AND_ASSIGN(agent, Agent::Start(node(), {state, "--remove-kube-proxy"}));
  ASSERT_OK(AwaitLog(*agent, "no complete state received since start"));
  EXPECT_EQ(Rules(Mode::kNftables), loaded);
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(AwaitLog(*agent, kRemoved));
}

// Returns the names of the child processes of `process`.
std::string ChildrenOf(pid_t process) {
  std::string names;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", process, "/task"))) {
    std::ifstream children(task.path() / "children");
    for (std::string pid; children >> pid;) {
      std::ifstream command("/proc/" + pid + "/cmdline");
      std::string name;
      std::getline(command, name, '\0');
      absl::StrAppend(&names, name, " ");
    }
  }
  return names;
}

TEST_F(MigrateTest, WhoeverHoldsTheLockOfIptablesDoesNotKeepUsFromLeaving) {
  ASSERT_OK(LoadKubeProxy(Mode::kIptablesLegacy, Ports(*pod_a_)));
  const std::string loaded = Rules(Mode::kIptablesLegacy);
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string path = folder.path() + "/xtables.lock";
  const UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  setenv("XTABLES_LOCKFILE", path.c_str(), 1);
  auto agent = Agent::Start(node(), {"--remove-kube-proxy"});
  unsetenv("XTABLES_LOCKFILE");
  ASSERT_OK(agent);
  ASSERT_OK((*agent)->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(Eventually("iptables-restore", [&] {
    return absl::StrContains(ChildrenOf((*agent)->pid()), "legacy-restore");
  }));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_OK((*agent)->Stop());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4)) << "of -w 5";
  EXPECT_EQ(Rules(Mode::kIptablesLegacy), loaded);
}

// Listing the tables of iptables-legacy requires the root user, regardless of capabilities.
TEST_F(MigrateTest, WhatOnlyRootMayReadIsReportedToBeUnread) {
  ASSERT_OK_AND_ASSIGN(
      const CommandResult check,
      RunCommand({.argv = {"setpriv", "--reuid=65532", "--regid=65532", "--clear-groups",
                           "--inh-caps=+net_admin", "--ambient-caps=+net_admin",
                           SVCMAP_BIN_DIR "/svcmapctl", "migrate", "check"},
                  .netns = &node()}));
  EXPECT_THAT(check.out, HasSubstr("ATTENTION  not checked: rules of iptables-legacy: "
                                   "/proc/thread-self/net/ip_tables_names: Permission denied"));
}

// A user without CAP_SYS_PTRACE cannot read /proc/PID/ns/net of kube-proxy.
TEST_F(MigrateTest, S330_AKubeProxyOfAnotherNetworkNamespaceIsIgnored) {
  const auto check = [&] {
    const auto result =
        RunCommand({.argv = {"setpriv", "--reuid=65532", "--regid=65532", "--clear-groups",
                             "--inh-caps=+net_admin", "--ambient-caps=+net_admin",
                             SVCMAP_BIN_DIR "/svcmapctl", "migrate", "check"},
                    .netns = &node()});
    EXPECT_OK(result);
    return result.ok() ? result->out : "";
  };
  FakeKubeProxy other;
  ASSERT_OK_AND_ASSIGN(const NetNs other_node, NetNs::Create());
  ASSERT_OK(other.Start(other_node));
  EXPECT_THAT(check(), Not(HasSubstr(other.sign())));

  FakeKubeProxy ours;
  ASSERT_OK(ours.Start(node()));
  EXPECT_THAT(check(), HasSubstr(ours.sign()));
}

// svcmapd keeps kube-proxy's chains that the node needs for other purposes.
TEST_F(MigrateTest, S146_WhereForwardDropsByDefaultItsChainStays) {
  const Mode mode = Mode::kIptablesLegacy;
  ASSERT_OK(LoadKubeProxy(mode, Ports(*pod_a_)));
  ASSERT_OK(Restore(mode, Family::kIpv4,
                    "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"
                    "*nat\n:CNI-SETMARK - [0:0]\n-A CNI-SETMARK -j KUBE-MARK-MASQ\nCOMMIT\n"));
  ASSERT_EQ(AnswererOf("10.96.0.10"), "pod-a");
  const std::string check = MigrateCheck().out;
  EXPECT_THAT(check, HasSubstr("ATTENTION  iptables-legacy: kube-proxy's chain must be kept: "
                               "KUBE-FORWARD in table filter, "
                               "because FORWARD drops by default"));
  EXPECT_THAT(check, HasSubstr("KUBE-MARK-MASQ in table nat, because chain CNI-SETMARK "
                               "jumps to it"));

  ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(node(), {"--remove-kube-proxy"}));
  ASSERT_OK(agent->Replace(ObjectsOf(Ports(*pod_a_))));
  ASSERT_OK(AwaitLog(*agent, "kube-proxy rules removed except kept chains count=2"));
  EXPECT_THAT(agent->log(),
              AllOf(HasSubstr("kube-proxy chain and jumps to it kept, see docs/migration.md "
                              "backend=iptables-legacy chain=\"KUBE-FORWARD in table filter, "
                              "because FORWARD drops by default"),
                    HasSubstr("chain=\"KUBE-MARK-MASQ in table nat, because chain CNI-SETMARK "),
                    Not(HasSubstr(kRemoved))));
  EXPECT_THAT(Rules(mode), AllOf(HasSubstr("-j KUBE-FORWARD\n"), HasSubstr("-A KUBE-MARK-MASQ "),
                                 Not(HasSubstr("KUBE-SERVICES")), Not(HasSubstr("KUBE-SVC"))));
  EXPECT_EQ(AnswererOf("10.96.0.10"), "pod-a");
}

}  // namespace
}  // namespace svcmap::testing
