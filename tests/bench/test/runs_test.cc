// Runs each workload of svcmap-bench for a short time with all compared implementations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/opponents/iptables_rules.h"
#include "tests/bench/opponents/nftables_rules.h"
#include "tests/bench/opponents/tool_run.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

using Names = std::set<std::string>;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using Lines = std::vector<std::string>;

struct RunCase {
  std::string name;
  std::vector<std::string> args;
  Names opponents;
  std::string metric;  // Metric that all opponents have for each step in `whats`.
  Names whats;
  Names without_figures = {};  // Compared implementations that the workload must skip.
};

class RunsTest : public ::testing::TestWithParam<RunCase> {};

TEST_P(RunsTest, EveryOpponentGivesEveryFigure) {
  ASSERT_OK_AND_ASSIGN(const auto folder, testing::TemporaryFolder::Make());
  std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmap-bench", "--shapes=100x5", "--rounds=1",
                                   "--out=" + folder.path()};
  Names opponents = GetParam().opponents;
  opponents.insert(GetParam().without_figures.begin(), GetParam().without_figures.end());
  argv.push_back("--opponents=" + absl::StrJoin(opponents, ","));
  argv.insert(argv.end(), GetParam().args.begin(), GetParam().args.end());
  ASSERT_OK_AND_ASSIGN(const std::string out,
                       testing::RunOk({.argv = argv}, std::chrono::seconds(120)));

  std::map<std::string, Names> seen;  // Steps that each opponent has recorded.
  std::ifstream file(folder.path() + "/samples.csv");
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ASSERT_EQ(cells.size(), 7u) << line;
    const std::string &opponent = cells[2], &metric = cells[4];
    for (const char* trouble : {"failed", "over-limit", "not-tried"}) {
      EXPECT_NE(metric, trouble) << line;
    }
    // Each flow reaches an endpoint with the rules of each opponent, except while they are
    // rewritten or damaged.
    if (metric == "failures" && cells[3] != "tcp-sync" && cells[3] != "tcp-repair") {
      EXPECT_EQ(cells[6], "0") << line;
    }
    if (metric == GetParam().metric) seen[opponent].insert(cells[3]);
  }
  for (const std::string& opponent : GetParam().opponents) {
    EXPECT_THAT(GetParam().whats, ::testing::IsSubsetOf(seen[opponent])) << opponent;
  }
  for (const std::string& opponent : GetParam().without_figures) {
    EXPECT_FALSE(seen.contains(opponent)) << opponent;
  }
  EXPECT_NE(out.find("| 100x5"), std::string::npos) << out;
  EXPECT_TRUE(std::ifstream(folder.path() + "/machine.json").good());
}

const Names kRules = {"svcmap",           "nftables",        "nftables-single", "nftables-shared",
                      "nftables-library", "iptables-legacy", "iptables-nft"};

Names With(Names names, const std::string& name) {
  names.insert(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(
    All, RunsTest,
    ::testing::Values(
        RunCase{"Sync", {"--mix=mixed", "sync"}, With(kRules, "netlink"), "seconds", {"load"}},
        RunCase{"Change",
                {"--mix=mixed", "change", "--samples=3"},
                With(kRules, "netlink"),
                "seconds",
                {"replace", "n-plus-1", "n-minus-1", "new-service", "deleted-service", "rolling"}},
        RunCase{"Churn",
                {"churn", "--rates=20,200", "--seconds=1"},
                {"netlink", "svcmap", "nftables"},
                "latency_seconds",
                {"rate-20", "rate-200"}},
        RunCase{"Latency",
                {"latency", "--flows=100"},
                With(kRules, "direct"),
                "p50_us",
                {"tcp-first", "tcp-middle", "tcp-last", "udp-first", "udp-middle", "udp-last"}},
        RunCase{"DuringSync",
                {"latency", "--during=sync", "--seconds=1"},
                {"svcmap", "nftables"},
                "count",
                {"tcp-quiet", "tcp-sync"}},
        // Of the compared implementations, only svcmapd repairs its rules.
        RunCase{"DuringRepair",
                {"latency", "--during=repair", "--seconds=1"},
                {"svcmap"},
                "count",
                {"tcp-quiet", "tcp-repair"},
                {"nftables"}},
        RunCase{"Connections",
                {"connections", "--seconds=0.2"},
                With(kRules, "direct"),
                "per_second",
                {"first", "middle", "last"}},
        RunCase{"Restart", {"restart"}, {"svcmap"}, "healthy_seconds", {"sigterm", "sigkill"}},
        RunCase{"FullSync", {"restart"}, {"nftables", "iptables-legacy"}, "seconds", {"full-sync"}},
        RunCase{"Repair",
                {"repair"},
                {"svcmap"},
                "outage_seconds",
                {"FlushedRuleset-running", "FlushedRuleset-stopped"}}),
    [](const auto& info) { return info.param.name; });

// Compares the generated rules of kube-proxy with published rules of kube-proxy.

Lines LinesOf(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

ServicePort Port(const std::string& key, const std::string& name, const std::string& ip,
                 uint16_t number, const Lines& endpoints, uint16_t endpoint_port) {
  const Lines parts = absl::StrSplit(key, '/');
  ServicePort port{.name_space = parts[0],
                   .service = parts[1],
                   .port_name = name,
                   .cluster_ip = *IpAddress::Parse(ip),
                   .port = number};
  int node = 0;
  for (const std::string& endpoint : endpoints) {
    port.endpoints.push_back(
        {.address = {*IpAddress::Parse(endpoint), endpoint_port}, .node = node++});
  }
  return port;
}

Lines IptablesOf(const std::vector<ServicePort>& ports) {
  IptablesRules rules(Family::kIpv4, {.cluster_cidr = IpPrefix::Parse("10.0.0.0/8")});
  return LinesOf(rules.FullSync(ports, /*clean_up=*/true));
}

// A new cluster has the Services kube-dns and kubernetes.
TEST(IptablesRulesTest, S204_S205_S206_S207_AFreshClusterLooksAsInTheWalkThroughs) {
  const Lines dns = {"10.244.0.2", "10.244.0.3"};
  std::vector<ServicePort> ports = {
      Port("kube-system/kube-dns", "dns", "10.96.0.10", 53, dns, 53),
      Port("kube-system/kube-dns", "dns-tcp", "10.96.0.10", 53, dns, 53),
      Port("kube-system/kube-dns", "metrics", "10.96.0.10", 9153, dns, 9153),
      Port("default/kubernetes", "https", "10.96.0.1", 443, {"192.0.2.10"}, 6443)};
  ports[0].protocol = proxy::Protocol::kUdp;
  const Lines lines = IptablesOf(ports);
  EXPECT_THAT(
      lines,
      IsSupersetOf(
          {"-A KUBE-SERVICES -m comment --comment \"kube-system/kube-dns:dns cluster IP\" -m udp "
           "-p udp -d 10.96.0.10 --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU",
           "-A KUBE-SERVICES -m comment --comment \"kube-system/kube-dns:dns-tcp cluster IP\" -m "
           "tcp -p tcp -d 10.96.0.10 --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4",
           "-A KUBE-SERVICES -m comment --comment \"kube-system/kube-dns:metrics cluster IP\" -m "
           "tcp -p tcp -d 10.96.0.10 --dport 9153 -j KUBE-SVC-JD5MR3NA4I4DYORP",
           "-A KUBE-SERVICES -m comment --comment \"default/kubernetes:https cluster IP\" -m tcp "
           "-p tcp -d 10.96.0.1 --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y",
           "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must "
           "be the last rule in this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
           "-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment \"kube-system/kube-dns:dns cluster "
           "IP\" -m udp -p udp -d 10.96.0.10 --dport 53 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ",
           "-A KUBE-SVC-NPX46M4PTMTKRN6Y -m comment --comment \"default/kubernetes:https -> "
           "192.0.2.10:6443\" -j KUBE-SEP-O7UXPAIOQA4W54LS"}));
  EXPECT_THAT(lines, Contains(HasSubstr("-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "
                                        "\"kube-system/kube-dns:dns -> 10.244.0.2:53\" -m "
                                        "statistic --mode random --probability 0.5000000000 -j "
                                        "KUBE-SEP-")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("\"kube-system/kube-dns:dns -> 10.244.0.3:53\" -j "
                                              "KUBE-SEP-"),
                                    Not(HasSubstr("statistic")))));
  EXPECT_THAT(lines, Contains(EndsWith("-m udp -p udp -j DNAT --to-destination 10.244.0.3:53")));
}

// Returns the targets of the rules that begin with `start`, in order.
Lines TargetsOf(const Lines& lines, const std::string& start) {
  Lines targets;
  for (const std::string& line : lines) {
    if (line.starts_with(start)) targets.push_back(line.substr(line.rfind(' ') + 1));
  }
  return targets;
}

TEST(IptablesRulesTest, ClusterIpsAreLookedUpFirstAndNodePortsLast) {
  ServicePort port = Port("shop/web", "http", "10.96.0.7", 80, {"10.244.0.2"}, 8080);
  port.external_ips = {*IpAddress::Parse("192.0.2.7")};
  port.load_balancer_ips = {*IpAddress::Parse("192.0.2.8")};
  EXPECT_THAT(TargetsOf(IptablesOf({port}), "-A KUBE-SERVICES "),
              ElementsAre(StartsWith("KUBE-SVC-"), StartsWith("KUBE-EXT-"), StartsWith("KUBE-EXT-"),
                          "KUBE-NODEPORTS"));
}

TEST(IptablesRulesTest, WithoutAClusterCidrNoTrafficToClusterIpsIsMasqueraded) {
  const ServicePort port = Port("shop/web", "http", "10.96.0.7", 80, {"10.244.0.2"}, 8080);
  IptablesRules rules(Family::kIpv4, {});
  EXPECT_THAT(TargetsOf(LinesOf(rules.FullSync({port}, /*clean_up=*/true)), "-A KUBE-SVC-"),
              ElementsAre(StartsWith("KUBE-SEP-")));
}

// The rule that is inserted last is the first rule of its chain.
TEST(IptablesRulesTest, JumpsAreInsertedAtTheBeginningOfTheirChains) {
  EXPECT_THAT(TargetsOf(LinesOf(IptablesRules(Family::kIpv4, {}).SetUp()), "-I FORWARD "),
              ElementsAre("KUBE-EXTERNAL-SERVICES", "KUBE-SERVICES", "KUBE-FORWARD",
                          "KUBE-PROXY-FIREWALL"));
}

NftablesNode Node(NftablesLayout layout = NftablesLayout::kMapPerService) {
  return {.ip = *IpAddress::Parse("192.0.2.10"),
          .cluster_cidr = *IpPrefix::Parse("10.64.0.0/14"),
          .service_cidr = *IpPrefix::Parse("10.96.0.0/16"),
          .layout = layout};
}

Lines NftablesOf(const std::vector<ServicePort>& ports,
                 NftablesLayout layout = NftablesLayout::kMapPerService) {
  return LinesOf(NftablesFullSync(Node(layout), ports));
}

// The expected rules are from a published listing of a node with kube-proxy 1.36.2.
TEST(NftablesRulesTest, FixedRules) {
  EXPECT_THAT(
      NftablesOf({}),
      IsSupersetOf(
          {"add table ip kube-proxy { comment \"rules for kube-proxy\" ; }",
           "add chain ip kube-proxy filter-prerouting-pre-dnat { type filter hook prerouting "
           "priority -110 ; }",
           "add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }",
           "add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100 ; }",
           "add rule ip kube-proxy services ip daddr @cluster-ips ip saddr != 10.64.0.0/14 mark "
           "set mark or 0x00004000 comment \"masquerade clusterIP traffic from outside cluster\"",
           "add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips",
           "add rule ip kube-proxy services ip daddr @nodeport-ips meta l4proto . th dport vmap "
           "@service-nodeports",
           "add rule ip kube-proxy masquerading mark and 0x00004000 != 0 mark set mark xor "
           "0x00004000 masquerade fully-random",
           "add rule ip kube-proxy masquerading ct status dnat ip saddr . ip daddr . meta l4proto "
           ". th dport @hairpin-connections masquerade fully-random",
           "add element ip kube-proxy nodeport-ips { 192.0.2.10 }"}));
}

TEST(NftablesRulesTest, S140_S339_AServiceIsOneChainWithOneAnonymousMap) {
  ServicePort port =
      Port("testing/service", "http", "10.96.3.1", 80, {"10.64.1.11", "10.64.2.21"}, 8080);
  const std::string chain = "ip kube-proxy service-P4ZYZVCF-testing/service/tcp/http";
  Lines lines = NftablesOf({port});
  lines.erase(lines.begin(), lines.begin() + static_cast<int64_t>(NftablesOf({}).size()));
  EXPECT_THAT(lines, ElementsAre("add chain " + chain, "flush chain " + chain,
                                 "add element ip kube-proxy hairpin-connections { 10.64.1.11 . "
                                 "10.64.1.11 . tcp . 8080 }",
                                 "add element ip kube-proxy cluster-ips { 10.96.3.1 }",
                                 "add element ip kube-proxy service-ips { 10.96.3.1 . tcp . 80 : "
                                 "goto service-P4ZYZVCF-testing/service/tcp/http }",
                                 "add rule " + chain +
                                     " meta l4proto tcp dnat ip addr . port to numgen random mod 2 "
                                     "map { 0 : 10.64.1.11 . 8080 , 1 : 10.64.2.21 . 8080 }"));
  // The layout of kubernetes#140723 uses no map for a single endpoint.
  port.endpoints.erase(port.endpoints.begin());
  EXPECT_THAT(NftablesOf({port}, NftablesLayout::kPlainSingle),
              Contains("add rule " + chain + " meta l4proto tcp dnat to 10.64.2.21:8080"));
}

// The expected rules are from the description of the design.
TEST(NftablesRulesTest, SharedDispatchHasOneChainForEachNumberOfEndpoints) {
  const std::vector<ServicePort> ports = {
      Port("shop/a", "http", "172.30.0.42", 80, {"10.0.2.1", "10.0.2.2"}, 80),
      Port("shop/b", "http", "172.30.0.44", 80, {"10.0.4.1", "10.0.4.2"}, 80)};
  Lines lines = NftablesOf(ports, NftablesLayout::kSharedDispatch);
  std::erase_if(lines, [](const std::string& line) {
    return line.find("dispatch") == std::string::npos &&
           line.find("endpoints ") == std::string::npos;
  });
  const std::string add = "add element ip kube-proxy ";
  EXPECT_THAT(
      lines,
      ElementsAre(StartsWith("add map ip kube-proxy endpoints { type ipv4_addr . inet_proto . "
                             "inet_service . mark : ipv4_addr . inet_service ;"),
                  "add chain ip kube-proxy dispatch-2", "flush chain ip kube-proxy dispatch-2",
                  "add rule ip kube-proxy dispatch-2 ct mark set numgen random mod 2 dnat ip addr "
                  ". port to ip daddr . meta l4proto . th dport . ct mark map @endpoints",
                  add + "service-ips { 172.30.0.42 . tcp . 80 : goto dispatch-2 }",
                  add + "endpoints { 172.30.0.42 . tcp . 80 . 0 : 10.0.2.1 . 80 }",
                  add + "endpoints { 172.30.0.42 . tcp . 80 . 1 : 10.0.2.2 . 80 }",
                  add + "service-ips { 172.30.0.44 . tcp . 80 : goto dispatch-2 }",
                  add + "endpoints { 172.30.0.44 . tcp . 80 . 0 : 10.0.4.1 . 80 }",
                  add + "endpoints { 172.30.0.44 . tcp . 80 . 1 : 10.0.4.2 . 80 }"));
}

// The expected transaction has the commands of the published example in which a Service loses an
// endpoint.
TEST(NftablesRulesTest, SharedDispatchSwitchesAndDeletesInOneTransaction) {
  const auto with_endpoints = [](const std::string& key, const Lines& endpoints) {
    return Port(key, "http", key == "shop/a" ? "10.96.173.12" : "10.96.173.13", 80, endpoints, 80);
  };
  const ServicePort two = with_endpoints("shop/a", {"10.244.1.1", "10.244.1.2"}),
                    one = with_endpoints("shop/a", {"10.244.1.1"}),
                    other = with_endpoints("shop/b", {"10.244.1.3", "10.244.1.4"});
  const std::string chain = "chain ip kube-proxy dispatch-";
  NftablesNode node = Node(NftablesLayout::kSharedDispatch);
  const NftablesUpdate update =
      NftablesChange(node, {one}, {{.before = two, .after = one, .messages = {}}});
  EXPECT_THAT(
      LinesOf(update.transaction),
      ElementsAre("add " + chain + "1", "flush " + chain + "1",
                  "delete element ip kube-proxy service-ips { 10.96.173.12 . tcp . 80 }",
                  "add element ip kube-proxy service-ips { 10.96.173.12 . tcp . 80 : goto "
                  "dispatch-1 }",
                  "add rule ip kube-proxy dispatch-1 ct mark set numgen random mod 1 dnat "
                  "ip addr . port to ip daddr . meta l4proto . th dport . ct mark map "
                  "@endpoints",
                  "flush " + chain + "2",
                  "delete element ip kube-proxy endpoints { 10.96.173.12 . tcp . 80 . 1 }"));
  EXPECT_THAT(update.stale_chains, ElementsAre("dispatch-2"));
  // The update keeps a chain that another Service uses.
  EXPECT_THAT(NftablesChange(node, {one, other}, {{.before = two, .after = one, .messages = {}}})
                  .stale_chains,
              IsEmpty());
}

TEST(NftablesRulesTest, SeveralChangesOfAServiceAreOneChange) {
  const auto with_endpoint = [](const std::string& ip) {
    return Port("shop/web", "http", "10.96.3.1", 80, {ip}, 8080);
  };
  const ServicePort first = with_endpoint("10.64.1.11"), second = with_endpoint("10.64.1.12"),
                    third = with_endpoint("10.64.1.13");
  EXPECT_EQ(NftablesChange(Node(), {third},
                           {{.before = first, .after = second, .messages = {}},
                            {.before = second, .after = third, .messages = {}}})
                .transaction,
            NftablesChange(Node(), {third}, {{.before = first, .after = third, .messages = {}}})
                .transaction);
}

TEST(ClusterTest, AStepOfARollingUpdateIsOneMessage) {
  Cluster cluster({.services = 1, .endpoints = 1000});
  EXPECT_EQ(cluster.ReplaceEndpoints(0, 10, 10).messages.size(), 1u);
}

TEST(ToolRunTest, AnErrorQuotesTheExitStatusAndStandardError) {
  ASSERT_OK_AND_ASSIGN(const testing::NetNs netns, testing::NetNs::Create());
  const absl::Status status =
      RunTool({"sh", "-c", "echo why >&2; exit 3"}, "", netns, std::chrono::seconds(120)).status();
  EXPECT_THAT(status.message(), ::testing::HasSubstr("exit 3: why"));
}

}  // namespace
}  // namespace svcmap::bench
