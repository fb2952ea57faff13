// Tests of the pure functions of `svcmapctl check`: targets, rules of other software, causes and
// reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/check/probe.h"
#include "api/check/report.h"
#include "api/cli/check.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using proxy::Protocol;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

std::vector<std::string> Names(const std::vector<CheckTarget>& targets) {
  std::vector<std::string> names;
  for (const CheckTarget& target : targets) {
    names.push_back(target.service + " " + target.role + " " + target.ToString());
  }
  return names;
}

v1::Service WebService() {
  return FromText<v1::Service>(R"(
    metadata { namespace: "shop" name: "web" }
    spec {
      ports { name: "http" port: 80 node_port: 30080 } ports { protocol: "UDP" port: 53 }
      cluster_ips: "10.96.0.10" cluster_ips: "fd00::10" external_ips: "192.0.2.1"
    }
    status { load_balancer { ingress { ip: "192.0.2.2" } } })");
}

TEST(CheckTargetTest, EachAddressIsCombinedWithEachPort) {
  std::vector<CheckTarget> targets;
  AddTargets(WebService(), {Ip("10.0.0.1")}, targets);
  EXPECT_THAT(Names(targets), ElementsAre("shop/web:http clusterIP 10.96.0.10:80/TCP",
                                          "shop/web:http clusterIP [fd00::10]:80/TCP",
                                          "shop/web:http externalIP 192.0.2.1:80/TCP",
                                          "shop/web:http load balancer IP 192.0.2.2:80/TCP",
                                          "shop/web:http nodePort 10.0.0.1:30080/TCP",
                                          "shop/web clusterIP 10.96.0.10:53/UDP",
                                          "shop/web clusterIP [fd00::10]:53/UDP",
                                          "shop/web externalIP 192.0.2.1:53/UDP",
                                          "shop/web load balancer IP 192.0.2.2:53/UDP"));
}

TEST(CheckTargetTest, PortRangesOfTheFieldAndTheAnnotationAreMarked) {
  v1::Service service = WebService();
  service.mutable_spec()->mutable_ports(0)->set_end_port(90);
  const auto annotated = FromText<v1::Service>(R"(
    metadata { namespace: "shop" name: "web"
               annotations { key: "svcmap/end-ports" value: "http=90" } }
    spec { cluster_ip: "10.96.0.10" ports { name: "http" port: 80 } })");
  for (const v1::Service& with_range : {service, annotated}) {
    std::vector<CheckTarget> targets;
    AddTargets(with_range, {Ip("10.0.0.1")}, targets);
    EXPECT_THAT(targets, Not(IsEmpty()));
    for (const CheckTarget& target : targets) {
      EXPECT_EQ(target.is_range, target.port == 80) << target.ToString();
    }
  }
}

TEST(CheckTargetTest, InvalidValuesAreIgnored) {
  v1::Service service = WebService();
  service.mutable_spec()->mutable_ports(0)->set_port(70000);
  service.mutable_spec()->mutable_ports(1)->set_protocol("QUIC");
  std::vector<CheckTarget> targets;
  AddTargets(service, {}, targets);
  EXPECT_THAT(targets, IsEmpty());
  service = WebService();
  service.mutable_spec()->clear_cluster_ips();
  service.mutable_spec()->clear_external_ips();
  service.mutable_status()->Clear();
  service.mutable_spec()->set_cluster_ip("None");
  AddTargets(service, {}, targets);
  EXPECT_THAT(targets, IsEmpty());
}

TEST(CheckTargetTest, SampleKeepsTheOrder) {
  std::vector<CheckTarget> targets(1000);
  for (size_t i = 0; i < targets.size(); ++i) targets[i].port = static_cast<uint16_t>(i);
  SampleTargets(10, 1, targets);
  ASSERT_EQ(targets.size(), 10);
  for (size_t i = 1; i < targets.size(); ++i) EXPECT_LT(targets[i - 1].port, targets[i].port);
  SampleTargets(100, 1, targets);
  EXPECT_EQ(targets.size(), 10);
}

constexpr char kListing[] = R"(table ip svcmap {
	chain filter-forward {
		type filter hook forward priority -110; policy accept;
		ip daddr 10.244.1.1 drop
	}
}
table inet fw {
	set blocked {
		type ipv4_addr
		flags interval
	}

	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established,related accept
		ct state invalid drop
		ip saddr @blocked drop
		tcp dport { 25, 8000-8100 } counter drop comment "no drop of 10.0.0.1"
		ip daddr { 10.244.1.0/24, 10.244.9.9 } reject with icmp port-unreachable
		accept
	}
}
table ip6 v6 {
	chain out {
		ip6 daddr fd00::/8 drop
	}
}
)";

TEST(ForeignRulesTest, RulesAndPoliciesOfOtherTablesAreFound) {
  std::vector<std::string> lines;
  for (const ForeignRule& rule : ParseForeignRules(kListing)) {
    lines.push_back(rule.chain + ": " + rule.text + (rule.rejects ? " (rejects)" : ""));
  }
  EXPECT_THAT(
      lines,
      ElementsAre("inet fw forward: policy drop", "inet fw forward: ct state invalid drop",
                  "inet fw forward: ip saddr @blocked drop",
                  "inet fw forward: tcp dport { 25, 8000-8100 } counter drop comment \"no drop of "
                  "10.0.0.1\"",
                  "inet fw forward: ip daddr { 10.244.1.0/24, 10.244.9.9 } reject with icmp "
                  "port-unreachable (rejects)",
                  "ip6 v6 out: ip6 daddr fd00::/8 drop"));
}

RuleMatch Match(const std::string& rule, Protocol protocol = Protocol::kTcp,
                const std::string& family = "inet") {
  return MatchRule({family, "inet t c", rule, false},
                   {{Ip("10.0.0.9"), Ip("10.96.0.10"), Ip("10.244.1.1")}, {80, 8080}, protocol});
}

TEST(ForeignRulesTest, MatchDependsOnAddressesPortsAndState) {
  constexpr RuleMatch kNo = RuleMatch::kNo;
  constexpr RuleMatch kPossible = RuleMatch::kPossible;
  constexpr RuleMatch kExplicit = RuleMatch::kExplicit;
  const std::vector<std::pair<std::string, RuleMatch>> cases = {
      {"drop", kPossible},
      {"policy drop", kPossible},
      {"ct state invalid drop", kNo},
      {"ct state new drop", kPossible},
      {"ct state invalid,new drop", kPossible},
      {"ip daddr 10.244.1.1 drop", kExplicit},
      {"ip daddr 10.244.1.2 drop", kNo},
      {"ip daddr 10.244.0.0/16 drop", kExplicit},
      {"ip saddr 0.0.0.0/0 drop", kPossible},
      {"ip saddr != 10.0.0.9 drop", kPossible},
      {"ip daddr @blocked drop", kPossible},
      {"ip daddr { 10.9.9.9, 10.96.0.10 } drop", kExplicit},
      {"ip6 daddr fd00::1 drop", kNo},
      {"ether saddr 00:11:22:33:44:55 drop", kPossible},
      {"tcp dport 8080 drop", kExplicit},
      {"tcp dport 8000-8100 drop", kExplicit},
      {"tcp dport 22 drop", kNo},
      {"tcp dport { 22, 80 } drop", kExplicit},
      {"tcp dport ssh drop", kPossible},
      {"udp dport 80 drop", kNo},
      {"meta l4proto { tcp, udp } drop", kPossible},
      {"ip protocol icmp drop", kNo},
      {"ip daddr 10.244.1.1 tcp dport 443 drop", kNo},
      {"ip daddr 10.244.1.1 reject with tcp reset", kExplicit},
      {"iifname \"10.9.9.9\" drop", kPossible},
  };
  for (const auto& [rule, expected] : cases) EXPECT_EQ(Match(rule), expected) << rule;
  const std::vector<std::pair<std::string, RuleMatch>> iptables = {
      {"-A FORWARD -j DROP", kPossible},
      {"-A FORWARD -d 10.244.1.1/32 -j DROP", kExplicit},
      {"-A FORWARD -d 10.244.1.2/32 -j DROP", kNo},
      {"-A FORWARD ! -s 10.9.9.9/32 -j DROP", kPossible},
      {"-A INPUT -p tcp -m tcp --dport 8000:9000 -j REJECT --reject-with tcp-reset", kExplicit},
      {"-A INPUT -p tcp -m multiport --dports 22,80 -j DROP", kExplicit},
      {"-A INPUT -p tcp -m tcp --dport 22 -j DROP", kNo},
      {"-A INPUT -p udp -m udp --dport 80 -j DROP", kNo},
      {"-A INPUT -m conntrack --ctstate INVALID -j DROP", kNo},
      {"-A INPUT -m conntrack --ctstate INVALID,NEW -j DROP", kPossible},
  };
  for (const auto& [rule, expected] : iptables) {
    EXPECT_EQ(Match(rule, Protocol::kTcp, "ip"), expected) << rule;
  }
  EXPECT_EQ(Match("tcp dport 80 drop", Protocol::kUdp), kNo);
  EXPECT_EQ(Match("reject with tcp reset", Protocol::kUdp), kPossible);
  EXPECT_EQ(Match("drop", Protocol::kTcp, "ip6"), kNo);
  EXPECT_EQ(Match("drop", Protocol::kTcp, "ip"), kPossible);
}

TEST(CheckCauseTest, ObservationsMatchPredictions) {
  using Explanation = v1::Explanation;
  const auto matches = [](Explanation::Verdict verdict, Protocol protocol) {
    std::string result;
    for (const Observation observation :
         {Observation::kConnected, Observation::kAnswered, Observation::kSilent,
          Observation::kRefused, Observation::kUnreachable, Observation::kBlocked}) {
      result += Matches(verdict, protocol, observation) ? 'y' : 'n';
    }
    return result;
  };
  EXPECT_EQ(matches(Explanation::DNAT, Protocol::kTcp), "yynnnn");
  EXPECT_EQ(matches(Explanation::DNAT, Protocol::kUdp), "yyynnn");
  EXPECT_EQ(matches(Explanation::REJECT, Protocol::kTcp), "nnnyny");
  EXPECT_EQ(matches(Explanation::DROP, Protocol::kUdp), "nnynny");
}

CheckTarget Target(const char* address, uint16_t port) {
  return {"shop/web", "clusterIP", Ip(address), port, Protocol::kTcp};
}

Evidence SilentService() {
  Evidence evidence;
  evidence.target = Target("10.96.0.10", 80);
  evidence.result = {Observation::kSilent, ""};
  evidence.kernel.set_agrees(true);
  evidence.endpoints = {{Target("10.244.1.1", 8080), {Observation::kConnected, ""}}};
  evidence.sources = {Ip("10.0.0.9")};
  return evidence;
}

std::string CauseText(const Evidence& evidence, const std::vector<ForeignRule>& rules = {}) {
  const Cause cause = LikelyCause(evidence, rules);
  return cause.kind + ": " + cause.text;
}

TEST(CheckCauseTest, KernelDifferencesComeFirst) {
  Evidence evidence = SilentService();
  evidence.rp_filter_drops = 1;
  evidence.kernel.add_differences("a is missing");
  EXPECT_EQ(CauseText(evidence),
            "kernel-state: the kernel differs from the desired state: a is missing");
  for (const char* more : {"b", "c", "d", "e"}) evidence.kernel.add_differences(more);
  evidence.kernel.set_pending(true);
  EXPECT_EQ(CauseText(evidence),
            "pending-change: the agent has not committed all changes: a is missing; b; c and 2 "
            "more");
}

TEST(CheckCauseTest, OnlyRulesWithTheObservedEffectAreCauses) {
  const std::vector<ForeignRule> rules = ParseForeignRules(
      "table ip fw {\n\tchain in {\n\t\tip daddr 10.96.0.10 drop\n\t\ttcp dport 80 reject\n\t}\n}");
  Evidence evidence = SilentService();
  EXPECT_EQ(CauseText(evidence, rules),
            "foreign-rule: a rule of other software matches: \"ip daddr 10.96.0.10 drop\" in chain "
            "ip fw in");
  evidence.result.observation = Observation::kRefused;
  EXPECT_EQ(
      CauseText(evidence, rules),
      "foreign-rule: a rule of other software matches: \"tcp dport 80 reject\" in chain ip fw "
      "in");
}

TEST(CheckCauseTest, DeadEndpointsAreNamedWithRulesThatMayMatch) {
  Evidence evidence = SilentService();
  evidence.endpoints[0].second.observation = Observation::kSilent;
  const std::vector<ForeignRule> rules = {{"inet", "inet fw forward", "policy drop", false}};
  EXPECT_EQ(CauseText(evidence, rules),
            "dead-endpoint: endpoint 10.244.1.1:8080/TCP does not answer: the pod or the pod "
            "network is down; rules that may match: \"policy drop\" in chain inet fw forward");
  Evidence endpoint;
  endpoint.is_endpoint = true;
  endpoint.target = Target("10.244.1.1", 8080);
  endpoint.result.observation = Observation::kRefused;
  EXPECT_EQ(CauseText(endpoint, rules),
            "dead-endpoint: endpoint 10.244.1.1:8080/TCP refuses connections: no process listens "
            "on the port");
}

TEST(CheckCauseTest, UnknownCauseListsTheFacts) {
  EXPECT_EQ(CauseText(SilentService()),
            "unknown: the elements in the kernel match the desired state, and direct connections "
            "to the endpoints succeed");
}

TEST(CheckReportTest, TextListsDifferencesAndGroupsOmissions) {
  CheckReport report;
  report.from = "the node";
  report.addresses = 1;
  report.endpoints = 2;
  report.differences = {{Target("10.96.0.10", 80), "a", "b", {"unknown", "c"}}};
  report.not_checked = {{Target("10.96.0.11", 80), "no SCTP"},
                        {Target("10.96.0.12", 80), "no SCTP"},
                        {Target("10.96.0.13", 80), "no IPv6"}};
  report.findings = {"Service shop/web: spec.clusterIP: d"};
  report.without_slices = {"Service shop/api: no IPv4 EndpointSlice"};
  EXPECT_EQ(ReportText(report),
            "Connected from the node to 1 Service address and 2 endpoints: 1 difference, 3 not "
            "checked\n"
            "\n"
            "shop/web clusterIP 10.96.0.10:80/TCP\n"
            "  expected  a\n"
            "  observed  b\n"
            "  cause     unknown: c\n"
            "\n"
            "Findings of the agent, see svcmapctl status:\n"
            "  Service shop/web: spec.clusterIP: d\n"
            "\n"
            "Without EndpointSlices:\n"
            "  Service shop/api: no IPv4 EndpointSlice\n"
            "\n"
            "Not checked\n"
            "  no IPv6\n"
            "    shop/web clusterIP 10.96.0.13:80/TCP\n"
            "  no SCTP\n"
            "    shop/web clusterIP 10.96.0.11:80/TCP\n"
            "    shop/web clusterIP 10.96.0.12:80/TCP\n");
  EXPECT_THAT(ReportText(report, 1, 1),
              ::testing::EndsWith("  shop/web clusterIP 10.96.0.11:80/TCP\n"
                                  "    and 1 more; use -o json to list all "
                                  "addresses\n"));
}

TEST(CheckReportTest, TheTextFitsTheTerminal) {
  CheckReport report;
  report.from = "the node";
  const std::string text =
      "Service shop/web: spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, "
      "inclusive; the previously accepted version stays in effect";
  for (int i = 0; i < 100; ++i) {
    report.differences.push_back({Target("10.96.0.10", 80), "a", "b", {"unknown", text}});
    report.findings.push_back(text);
    report.not_checked.push_back({Target("10.96.0.11", 80), "no SCTP"});
  }
  const std::string page = ReportPage(report, {.columns = 80, .rows = 24});
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  EXPECT_LE(lines.size(), 24u) << page;  // The last line is empty and contains the prompt.
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(page, HasSubstr("\nand 99 more; use -o json to list all differences\n"));
  EXPECT_THAT(page, HasSubstr("\n  and 99 more; use -o json to list all findings\n"));
  EXPECT_THAT(page, HasSubstr("\n    and 99 more; use -o json to list all addresses\n"));
  EXPECT_EQ(ReportPage(report, {}), ReportText(report));
  EXPECT_THAT(ReportText(report), Not(HasSubstr("more;")));

  // If one entry of each list does not fit, the lists contain only the number of entries.
  for (int i = 0; i < 100; ++i) {
    report.without_slices.insert(absl::StrCat("Service shop/s", i, ": ", text));
  }
  const std::string full = ReportPage(report, {.columns = 80, .rows = 24});
  EXPECT_LE(std::count(full.begin(), full.end(), '\n'), 23) << full;
  EXPECT_THAT(full, HasSubstr("\nand 99 more; use -o json to list all differences\n"));
  EXPECT_THAT(full, HasSubstr("\n  and 100 more; use -o json to list all Services\n"));
}

TEST(RpFilterTest, CounterIsFoundByName) {
  constexpr char kPage[] =
      "TcpExt: SyncookiesSent IPReversePathFilter TCPTimeouts\nTcpExt: 1 22 333\n"
      "IpExt: InNoRoutes IPReversePathFilter\nIpExt: 4 5\n";
  EXPECT_EQ(NetstatCounter(kPage, "IPReversePathFilter"), 22);
  EXPECT_EQ(NetstatCounter(kPage, "Missing"), 0);
  EXPECT_EQ(NetstatCounter("", "IPReversePathFilter"), 0);
}

// Only svcmapd has a lock socket. The sockets of the test's namespace may belong to an agent.
TEST(CheckCommandTest, AnotherNetworkNamespaceIsNamed) {
  using Sockets = std::vector<uint64_t>;
  EXPECT_THAT(AgentElsewhere(Sockets{}),
              HasSubstr("no svcmapd runs in the network namespace of this process; run svcmapctl "
                        "on the node"));
  EXPECT_EQ(AgentElsewhere(Sockets{4711}), "");
  EXPECT_EQ(AgentElsewhere(absl::NotFoundError("open /proc/thread-self/net/netlink")), "");
}

TEST(CheckCommandTest, InvalidOptionsAreUsageErrors) {
  EXPECT_THAT(Ctl({"check", "--netns", "a", "--pid", "1"}).err,
              HasSubstr("--netns and --pid cannot be used together"));
  EXPECT_THAT(Ctl({"check", "--rate", "0"}).err,
              HasSubstr("--rate: Value 0 not in range 1 to 10000"));
  EXPECT_EQ(Ctl({"check", "--pid", "-1"}).code, 2);
  EXPECT_THAT(Ctl({"check", "--pid", "nginx"}).err,
              HasSubstr("--pid: Value nginx not in range 1 to 2147483647"));
  EXPECT_THAT(Ctl({"check", "--probe-timeout", "soon"}).err, HasSubstr("--probe-timeout"));
}

}  // namespace
}  // namespace svcmap::api
