#include "tests/bench/opponents/iptables_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace svcmap::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Lines = std::vector<std::string>;

// One table in the input of iptables-restore.
struct RestoreTable {
  Lines chains;                        // Names of the chains in order, without policy and counters.
  std::map<std::string, Lines> rules;  // Rules of each chain, without "-A CHAIN ".
  Lines deleted;                       // Chains that the input deletes with -X.
};

std::map<std::string, RestoreTable> ReadRestore(const std::string& text) {
  std::map<std::string, RestoreTable> tables;
  RestoreTable* table = nullptr;
  const Lines lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const Lines words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    if (line[0] == '*') {
      EXPECT_EQ(table, nullptr) << line;
      table = &tables[line.substr(1)];
    } else if (line == "COMMIT") {
      table = nullptr;
    } else if (line[0] == ':') {
      EXPECT_EQ(words[1] + " " + words[2], "- [0:0]");
      EXPECT_THAT(table->rules, IsEmpty()) << "chains come before rules";
      table->chains.push_back(words[0].substr(1));
    } else if (words[0] == "-X") {
      table->deleted.push_back(words[1]);
    } else {
      table->rules[words[1]].push_back(words[2]);
    }
  }
  EXPECT_EQ(table, nullptr) << "no COMMIT at the end";
  return tables;
}

IpAddress Ip(const std::string& text) { return *IpAddress::Parse(text); }

ServicePort Port(const std::string& key, const std::string& name, const std::string& ip,
                 uint16_t number, const Lines& endpoints, uint16_t endpoint_port) {
  const Lines parts = absl::StrSplit(key, '/');
  ServicePort port{.name_space = parts[0],
                   .service = parts[1],
                   .port_name = name,
                   .cluster_ip = Ip(ip),
                   .port = number};
  int node = 0;
  for (const std::string& endpoint : endpoints) {
    port.endpoints.push_back({.address = {Ip(endpoint), endpoint_port}, .node = node++});
  }
  return port;
}

// Returns a Service port whose endpoint 10.180.0.1 is on this node. All endpoints except 10.180.0.1
// are on other nodes.
ServicePort Web(int endpoints) {
  Lines addresses;
  for (int i = 1; i <= endpoints; ++i) addresses.push_back(absl::StrCat("10.180.0.", i));
  return Port("ns1/svc1", "p80", "172.30.0.41", 80, addresses, 80);
}

IptablesRules Rules(Family family = Family::kIpv4) {
  return IptablesRules(family,
                       {.cluster_cidr = family == Family::kIpv4 ? IpPrefix::Parse("10.0.0.0/8")
                                                                : IpPrefix::Parse("fd00::/16")});
}

std::map<std::string, RestoreTable> Full(const std::vector<ServicePort>& ports) {
  return ReadRestore(Rules().FullSync(ports, true));
}

// Returns the chain to which a rule jumps.
std::string Target(const std::string& rule) {
  const Lines words = absl::StrSplit(rule, ' ');
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-j") return words[i + 1];
  }
  return "";
}

Lines Targets(const Lines& rules) {
  Lines targets;
  for (const std::string& rule : rules) targets.push_back(Target(rule));
  return targets;
}

constexpr char kSvc[] = "KUBE-SVC-XPGD46QRK7WJZT7O";
constexpr char kSvl[] = "KUBE-SVL-XPGD46QRK7WJZT7O";
constexpr char kExt[] = "KUBE-EXT-XPGD46QRK7WJZT7O";
constexpr char kFw[] = "KUBE-FW-XPGD46QRK7WJZT7O";
constexpr char kSep[] = "KUBE-SEP-SXIVWICOYRO3J4NJ";
constexpr char kNodePorts[] =
    "-m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this "
    "chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS";

// Expected rules of a node in a new cluster, which has only the Services kube-dns and kubernetes.
TEST(IptablesRulesTest, S204_S205_S206_S207_AFreshClusterLooksAsInTheWalkThroughs) {
  const Lines dns = {"10.244.0.2", "10.244.0.3"};
  std::vector<ServicePort> ports = {
      Port("kube-system/kube-dns", "dns", "10.96.0.10", 53, dns, 53),
      Port("kube-system/kube-dns", "dns-tcp", "10.96.0.10", 53, dns, 53),
      Port("kube-system/kube-dns", "metrics", "10.96.0.10", 9153, dns, 9153),
      Port("default/kubernetes", "https", "10.96.0.1", 443, {"192.0.2.10"}, 6443)};
  ports[0].protocol = proxy::Protocol::kUdp;
  RestoreTable nat = Full(ports)["nat"];

  EXPECT_THAT(
      nat.rules["KUBE-SERVICES"],
      ElementsAre("-m comment --comment \"kube-system/kube-dns:dns cluster IP\" -m udp -p udp "
                  "-d 10.96.0.10 --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU",
                  "-m comment --comment \"kube-system/kube-dns:dns-tcp cluster IP\" -m tcp -p tcp "
                  "-d 10.96.0.10 --dport 53 -j KUBE-SVC-ERIFXISQEP7F7OF4",
                  "-m comment --comment \"kube-system/kube-dns:metrics cluster IP\" -m tcp -p tcp "
                  "-d 10.96.0.10 --dport 9153 -j KUBE-SVC-JD5MR3NA4I4DYORP",
                  "-m comment --comment \"default/kubernetes:https cluster IP\" -m tcp -p tcp "
                  "-d 10.96.0.1 --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y",
                  kNodePorts));
  const Lines& dns_rules = nat.rules["KUBE-SVC-TCOU7JCQXEZGVUNU"];
  ASSERT_THAT(dns_rules, SizeIs(3));
  EXPECT_EQ(dns_rules[0],
            "-m comment --comment \"kube-system/kube-dns:dns cluster IP\" -m udp -p udp "
            "-d 10.96.0.10 --dport 53 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ");
  EXPECT_THAT(dns_rules[1],
              HasSubstr("-m comment --comment \"kube-system/kube-dns:dns -> 10.244.0.2:53\" "
                        "-m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-"));
  EXPECT_THAT(dns_rules[2],
              AllOf(HasSubstr("\"kube-system/kube-dns:dns -> 10.244.0.3:53\" -j KUBE-SEP-"),
                    Not(HasSubstr("statistic"))));
  EXPECT_THAT(nat.rules[Target(dns_rules[2])],
              ElementsAre("-m comment --comment kube-system/kube-dns:dns -s 10.244.0.3 "
                          "-j KUBE-MARK-MASQ",
                          "-m comment --comment kube-system/kube-dns:dns -m udp -p udp -j DNAT "
                          "--to-destination 10.244.0.3:53"));
  // S-214: the rule has no probability, because the Service has only one endpoint.
  EXPECT_THAT(nat.rules["KUBE-SVC-NPX46M4PTMTKRN6Y"],
              ElementsAre(HasSubstr("! -s 10.0.0.0/8 -j KUBE-MARK-MASQ"),
                          "-m comment --comment \"default/kubernetes:https -> 192.0.2.10:6443\" "
                          "-j KUBE-SEP-O7UXPAIOQA4W54LS"));
}

TEST(IptablesRulesTest, S208_S209_ChainsAreThoseOfTheReferenceTests) {
  RestoreTable nat = Full({Web(1)})["nat"];
  EXPECT_THAT(nat.chains, ElementsAre("KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING",
                                      "KUBE-MARK-MASQ", kSvc, kSep));
  EXPECT_THAT(nat.rules[kSep],
              ElementsAre("-m comment --comment ns1/svc1:p80 -s 10.180.0.1 -j KUBE-MARK-MASQ",
                          "-m comment --comment ns1/svc1:p80 -m tcp -p tcp -j DNAT "
                          "--to-destination 10.180.0.1:80"));
}

TEST(IptablesRulesTest, S210_S212_AnUnnamedPortHasNoColon) {
  RestoreTable nat = Full({Port("shop/web", "", "10.96.0.5", 80, {"10.64.1.5"}, 8080)})["nat"];
  EXPECT_THAT(nat.rules["KUBE-SVC-E3PXEPMWAWIUT6ZV"],
              Contains("-m comment --comment \"shop/web -> 10.64.1.5:8080\" "
                       "-j KUBE-SEP-REGSAMVERWV4AOOM"));
}

TEST(IptablesRulesTest, S211_SctpHasAHashOfItsOwn) {
  ServicePort port = Port("shop/web", "", "10.96.0.5", 80, {"10.64.1.5"}, 8080);
  port.protocol = proxy::Protocol::kSctp;
  RestoreTable nat = Full({port})["nat"];
  EXPECT_THAT(nat.rules["KUBE-SERVICES"],
              Contains("-m comment --comment \"shop/web cluster IP\" -m sctp -p sctp "
                       "-d 10.96.0.5 --dport 80 -j KUBE-SVC-QBYPUWQGBX7LZEE2"));
}

TEST(IptablesRulesTest, S213_Ipv6EndpointsStandInBrackets) {
  const ServicePort port = Port("shop/web", "http", "fd00:96::5", 80, {"fd00:db8::7"}, 8080);
  std::map<std::string, RestoreTable> tables =
      ReadRestore(Rules(Family::kIpv6).FullSync({port}, true));
  EXPECT_THAT(tables["nat"].rules["KUBE-SEP-6IRDXO4Z6CJFPQTR"],
              ElementsAre("-m comment --comment shop/web:http -s fd00:db8::7 -j KUBE-MARK-MASQ",
                          "-m comment --comment shop/web:http -m tcp -p tcp -j DNAT "
                          "--to-destination [fd00:db8::7]:8080"));
  EXPECT_THAT(tables["nat"].rules["KUBE-SERVICES"].back(),
              HasSubstr("-m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS"));
  // S-226: nodePorts do not accept connections to ::1, so ::1 needs no protection.
  EXPECT_THAT(tables["filter"].chains, Not(Contains("KUBE-FIREWALL")));
}

TEST(IptablesRulesTest, S215_EachEndpointHasTheSameShare) {
  RestoreTable three = Full({Web(3)})["nat"];
  const Lines& rules = three.rules[kSvc];
  ASSERT_THAT(rules, SizeIs(4));
  EXPECT_THAT(rules[1], HasSubstr("10.180.0.1:80\" -m statistic --mode random "
                                  "--probability 0.3333333333 -j KUBE-SEP-"));
  EXPECT_THAT(rules[2], HasSubstr("10.180.0.2:80\" -m statistic --mode random "
                                  "--probability 0.5000000000 -j KUBE-SEP-"));
  EXPECT_THAT(rules[3], HasSubstr("10.180.0.3:80\" -j KUBE-SEP-"));

  RestoreTable eleven = Full({Web(11)})["nat"];
  const char* probabilities[] = {"0.0909090909", "0.1000000000", "0.1111111111", "0.1250000000",
                                 "0.1428571429", "0.1666666667", "0.2000000000", "0.2500000000",
                                 "0.3333333333", "0.5000000000"};
  ASSERT_THAT(eleven.rules[kSvc], SizeIs(12));
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_THAT(eleven.rules[kSvc][i + 1],
                HasSubstr(absl::StrCat("--probability ", probabilities[i], " -j")));
  }
}

TEST(IptablesRulesTest, S27_EndpointsAreInTheOrderOfTheirTexts) {
  // In string order, ".10:80" and ".11:80" precede ".1:80".
  RestoreTable nat = Full({Web(11)})["nat"];
  EXPECT_THAT(nat.rules[kSvc][1], HasSubstr("-> 10.180.0.10:80"));
  EXPECT_THAT(nat.rules[kSvc][3], HasSubstr("-> 10.180.0.1:80"));
  EXPECT_THAT(nat.rules[kSvc][4], HasSubstr("-> 10.180.0.2:80"));
}

TEST(IptablesRulesTest, S217_S218_S81_WithoutEndpointsEverythingIsRejected) {
  ServicePort port = Web(0);
  port.node_port = 30080;
  port.external_ips = {Ip("192.0.2.7")};
  port.load_balancer_ips = {Ip("192.0.2.8")};
  port.source_ranges = {*IpPrefix::Parse("203.0.113.0/25")};
  std::map<std::string, RestoreTable> tables = Full({port});
  const std::string comment = "-m comment --comment \"ns1/svc1:p80 has no endpoints\"";
  EXPECT_THAT(tables["filter"].rules["KUBE-SERVICES"],
              ElementsAre(comment + " -m tcp -p tcp -d 172.30.0.41 --dport 80 -j REJECT"));
  EXPECT_THAT(tables["filter"].rules["KUBE-EXTERNAL-SERVICES"],
              ElementsAre(comment + " -m tcp -p tcp -d 192.0.2.7 --dport 80 -j REJECT",
                          comment + " -m tcp -p tcp -d 192.0.2.8 --dport 80 -j REJECT",
                          comment + " -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 "
                                    "-j REJECT"));
  // S-119: source ranges have no effect on a Service without endpoints.
  EXPECT_THAT(tables["filter"].rules["KUBE-PROXY-FIREWALL"], IsEmpty());
  EXPECT_THAT(tables["nat"].rules["KUBE-SERVICES"], ElementsAre(kNodePorts));
  EXPECT_THAT(tables["nat"].chains, SizeIs(4));
}

TEST(IptablesRulesTest, S219_S231_NodePortsGoThroughTheExternalChain) {
  ServicePort port = Web(1);
  port.node_port = 30080;
  RestoreTable nat = Full({port})["nat"];
  EXPECT_THAT(nat.rules["KUBE-NODEPORTS"],
              ElementsAre(absl::StrCat("-m comment --comment ns1/svc1:p80 -m tcp -p tcp "
                                       "--dport 30080 -j ",
                                       kExt)));
  EXPECT_THAT(nat.rules[kExt],
              ElementsAre("-m comment --comment \"masquerade traffic for ns1/svc1:p80 external "
                          "destinations\" -j KUBE-MARK-MASQ",
                          absl::StrCat("-j ", kSvc)));
  EXPECT_THAT(nat.chains, ElementsAre("KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING",
                                      "KUBE-MARK-MASQ", kExt, kSvc, kSep));
}

TEST(IptablesRulesTest, S216_LookupIsClusterIpThenExternalThenLoadBalancerThenNodePorts) {
  ServicePort port = Web(1);
  port.external_ips = {Ip("192.0.2.7")};
  port.load_balancer_ips = {Ip("192.0.2.8")};
  RestoreTable nat = Full({port})["nat"];
  EXPECT_THAT(nat.rules["KUBE-SERVICES"],
              ElementsAre(HasSubstr("\"ns1/svc1:p80 cluster IP\""),
                          absl::StrCat("-m comment --comment \"ns1/svc1:p80 external IP\" -m tcp "
                                       "-p tcp -d 192.0.2.7 --dport 80 -j ",
                                       kExt),
                          absl::StrCat("-m comment --comment \"ns1/svc1:p80 loadbalancer IP\" "
                                       "-m tcp -p tcp -d 192.0.2.8 --dport 80 -j ",
                                       kExt),
                          kNodePorts));
}

TEST(IptablesRulesTest, S230_S231_PolicyLocalKeepsSourcesOfOutsideAndStaysHere) {
  ServicePort port = Web(3);
  port.node_port = 30080;
  port.external_local = true;
  std::map<std::string, RestoreTable> tables = Full({port});
  const std::string tail = " ns1/svc1:p80 external destinations\"";
  EXPECT_THAT(
      tables["nat"].rules[kExt],
      ElementsAre("-m comment --comment \"pod traffic for" + tail + " -s 10.0.0.0/8 -j " + kSvc,
                  "-m comment --comment \"masquerade LOCAL traffic for" + tail +
                      " -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ",
                  "-m comment --comment \"route LOCAL traffic for" + tail +
                      " -m addrtype --src-type LOCAL -j " + kSvc,
                  absl::StrCat("-j ", kSvl)));
  EXPECT_THAT(tables["nat"].rules[kSvl],
              ElementsAre(absl::StrCat("-m comment --comment \"ns1/svc1:p80 -> 10.180.0.1:80\" -j ",
                                       kSep)));
  EXPECT_THAT(tables["nat"].rules[kSvc], SizeIs(4)) << "all endpoints, for pods and this node";
  EXPECT_THAT(tables["filter"].rules["KUBE-EXTERNAL-SERVICES"], IsEmpty());
}

TEST(IptablesRulesTest, S80_PolicyLocalWithoutLocalEndpointsDropsWhatIsFromOutside) {
  ServicePort port = Web(3);
  port.endpoints.erase(port.endpoints.begin());
  port.node_port = 30080;
  port.load_balancer_ips = {Ip("192.0.2.8")};
  port.external_local = true;
  std::map<std::string, RestoreTable> tables = Full({port});
  const std::string comment = "-m comment --comment \"ns1/svc1:p80 has no local endpoints\"";
  EXPECT_THAT(tables["filter"].rules["KUBE-EXTERNAL-SERVICES"],
              ElementsAre(comment + " -m tcp -p tcp -d 192.0.2.8 --dport 80 -j DROP",
                          comment + " -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 "
                                    "-j DROP"));
  EXPECT_THAT(Targets(tables["nat"].rules[kExt]), ElementsAre(kSvc, "KUBE-MARK-MASQ", kSvc));
  EXPECT_THAT(tables["nat"].chains, Not(Contains(kSvl)));
  EXPECT_THAT(tables["filter"].rules["KUBE-SERVICES"], IsEmpty()) << "the cluster IP works";
}

TEST(IptablesRulesTest, S10_PolicyLocalMeansNothingWithoutExternalDestinations) {
  ServicePort port = Web(3);
  port.external_local = true;
  EXPECT_EQ(Rules().FullSync({port}, true), Rules().FullSync({Web(3)}, true));
}

TEST(IptablesRulesTest, S220_HealthCheckNodePortsAreAccepted) {
  ServicePort port = Web(1);
  port.load_balancer_ips = {Ip("192.0.2.8")};
  port.external_local = true;
  port.health_check_node_port = 31000;
  EXPECT_THAT(Full({port})["filter"].rules["KUBE-NODEPORTS"],
              ElementsAre("-m comment --comment \"ns1/svc1:p80 health check node port\" -m tcp "
                          "-p tcp --dport 31000 -j ACCEPT"));
  port.external_local = false;  // S-13
  EXPECT_THAT(Full({port})["filter"].rules["KUBE-NODEPORTS"], IsEmpty());
}

TEST(IptablesRulesTest, S227_S232_SourceRangesAreCheckedBeforeAndAfterDnat) {
  ServicePort port = Web(1);
  port.load_balancer_ips = {Ip("192.0.2.8")};
  port.source_ranges = {*IpPrefix::Parse("203.0.113.0/25"), *IpPrefix::Parse("198.51.100.0/24")};
  std::map<std::string, RestoreTable> tables = Full({port});
  EXPECT_THAT(tables["nat"].rules["KUBE-SERVICES"],
              Contains(AllOf(HasSubstr("loadbalancer IP"), HasSubstr(kFw))));
  const std::string comment = "-m comment --comment \"ns1/svc1:p80 loadbalancer IP\"";
  const std::string rest =
      "-m comment --comment \"other traffic to ns1/svc1:p80 will be dropped by "
      "KUBE-PROXY-FIREWALL\"";
  EXPECT_THAT(tables["nat"].rules[kFw],
              ElementsAre(comment + " -s 203.0.113.0/25 -j " + kExt,
                          comment + " -s 198.51.100.0/24 -j " + kExt, rest));
  EXPECT_THAT(tables["filter"].rules["KUBE-PROXY-FIREWALL"],
              ElementsAre(absl::StrCat("-m comment --comment \"ns1/svc1:p80 traffic not accepted "
                                       "by ",
                                       kFw, "\" -m tcp -p tcp -d 192.0.2.8 --dport 80 -j DROP")));

  // S-118: if the source ranges permit this node, packets from the node with the load balancer IP
  // as source are also permitted.
  IptablesRules rules(Family::kIpv4, {.node_ip = Ip("198.51.100.9")});
  EXPECT_THAT(ReadRestore(rules.FullSync({port}, true))["nat"].rules[kFw],
              ElementsAre(HasSubstr("-s 203.0.113.0/25"), HasSubstr("-s 198.51.100.0/24"),
                          comment + " -s 192.0.2.8 -j " + kExt, rest));
}

TEST(IptablesRulesTest, S234_AffinityAsksTheListsBeforeItChooses) {
  ServicePort port = Web(2);
  port.affinity_seconds = 10800;
  RestoreTable nat = Full({port})["nat"];
  const Lines& rules = nat.rules[kSvc];
  ASSERT_THAT(rules, SizeIs(5));
  EXPECT_EQ(rules[1], absl::StrCat("-m comment --comment \"ns1/svc1:p80 -> 10.180.0.1:80\" "
                                   "-m recent --name ",
                                   kSep, " --rcheck --seconds 10800 --reap -j ", kSep));
  EXPECT_THAT(rules[2], AllOf(HasSubstr("10.180.0.2:80"), HasSubstr("--rcheck")));
  EXPECT_THAT(rules[3], AllOf(HasSubstr("10.180.0.1:80"), HasSubstr("--probability 0.5")));
  EXPECT_EQ(nat.rules[kSep][1],
            absl::StrCat("-m comment --comment ns1/svc1:p80 -m recent --name ", kSep,
                         " --set -m tcp -p tcp -j DNAT --to-destination 10.180.0.1:80"));
}

TEST(IptablesRulesTest, S221_S222_S223_S224_S225_S226_SharedRulesAreKubeProxys) {
  std::map<std::string, RestoreTable> tables = Full({});
  EXPECT_THAT(tables["nat"].rules["KUBE-POSTROUTING"],
              ElementsAre("-m mark ! --mark 0x00004000/0x00004000 -j RETURN",
                          "-j MARK --xor-mark 0x00004000",
                          "-m comment --comment \"kubernetes service traffic requiring SNAT\" "
                          "-j MASQUERADE --random-fully"));
  EXPECT_THAT(tables["nat"].rules["KUBE-MARK-MASQ"], ElementsAre("-j MARK --or-mark 0x00004000"));
  EXPECT_THAT(tables["filter"].rules["KUBE-FORWARD"],
              ElementsAre("-m conntrack --ctstate INVALID -j DROP",
                          "-m comment --comment \"kubernetes forwarding rules\" -m mark --mark "
                          "0x00004000/0x00004000 -j ACCEPT",
                          "-m comment --comment \"kubernetes forwarding conntrack rule\" "
                          "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"));
  EXPECT_THAT(tables["filter"].rules["KUBE-FIREWALL"],
              ElementsAre("-m comment --comment \"block incoming localnet connections\" "
                          "-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate "
                          "RELATED,ESTABLISHED,DNAT -j DROP"));
  EXPECT_THAT(tables["filter"].chains,
              ElementsAre("KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD",
                          "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL", "KUBE-FIREWALL"));
}

TEST(IptablesRulesTest, S71_WithoutClusterCidrNobodyIsAPod) {
  ServicePort port = Web(1);
  port.node_port = 30080;
  port.external_local = true;
  IptablesRules rules(Family::kIpv4, {});
  RestoreTable nat = ReadRestore(rules.FullSync({port}, true))["nat"];
  EXPECT_THAT(Targets(nat.rules[kSvc]), ElementsAre(kSep));
  EXPECT_THAT(Targets(nat.rules[kExt]), ElementsAre("KUBE-MARK-MASQ", kSvc, kSvl));
}

TEST(IptablesRulesTest, S228_S236_SetUpHasTheJumpsAndTheCanaries) {
  std::map<std::string, RestoreTable> tables = ReadRestore(Rules().SetUp());
  EXPECT_THAT(tables, SizeIs(3));
  for (const auto& [name, table] : tables) {
    EXPECT_THAT(table.chains, Contains("KUBE-PROXY-CANARY")) << name;
  }
  // kube-proxy prepends jumps, so the jump that was inserted last is the first rule that a packet
  // reaches.
  const std::string only_new = "-m conntrack --ctstate NEW ";
  const std::string firewall =
      only_new +
      "-m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL";
  const std::string services =
      "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES";
  const std::string external =
      only_new +
      "-m comment --comment \"kubernetes externally-visible service portals\" "
      "-j KUBE-EXTERNAL-SERVICES";
  std::map<std::string, Lines>& filter = tables["filter"].rules;
  EXPECT_THAT(filter["INPUT"],
              ElementsAre(external,
                          "-m comment --comment \"kubernetes health check service ports\" "
                          "-j KUBE-NODEPORTS",
                          firewall, "-j KUBE-FIREWALL"));
  EXPECT_THAT(filter["FORWARD"],
              ElementsAre(external, only_new + services,
                          "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD",
                          firewall));
  EXPECT_THAT(filter["OUTPUT"], ElementsAre(only_new + services, firewall, "-j KUBE-FIREWALL"));
  std::map<std::string, Lines>& nat = tables["nat"].rules;
  EXPECT_THAT(nat["PREROUTING"], ElementsAre(services));
  EXPECT_THAT(nat["OUTPUT"], ElementsAre(services));
  EXPECT_THAT(nat["POSTROUTING"],
              ElementsAre("-m comment --comment \"kubernetes postrouting rules\" "
                          "-j KUBE-POSTROUTING"));
}

TEST(IptablesRulesTest, S235_LargeClustersHaveNoCommentsAtEndpoints) {
  Cluster small({.services = 100, .endpoints = 10});
  EXPECT_FALSE(IsLargeForIptables(small.ports()));
  small.AddEndpoint(0);
  EXPECT_TRUE(IsLargeForIptables(small.ports()));

  RestoreTable nat = Full(small.ports())["nat"];
  for (const auto& [chain, rules] : nat.rules) {
    if (absl::StartsWith(chain, "KUBE-SEP-")) {
      EXPECT_THAT(rules, Each(Not(HasSubstr("comment"))));
    } else if (absl::StartsWith(chain, "KUBE-SVC-")) {
      EXPECT_THAT(rules.front(), HasSubstr("cluster IP")) << "the others keep theirs";
      EXPECT_THAT(Lines(rules.begin() + 1, rules.end()), Each(Not(HasSubstr("comment"))));
    }
  }
  EXPECT_THAT(nat.rules["KUBE-SERVICES"], Each(HasSubstr("comment")));
}

TEST(IptablesRulesTest, S236_APartialSyncHoldsTheChainsOfWhatChanged) {
  Cluster cluster({.services = 5, .endpoints = 3});
  IptablesRules rules = Rules();
  RestoreTable full = ReadRestore(rules.FullSync(cluster.ports(), true))["nat"];
  const ClusterChange change = cluster.ReplaceEndpoint(2);
  std::map<std::string, RestoreTable> partial =
      ReadRestore(rules.PartialSync(cluster.ports(), {change}, true));
  RestoreTable& nat = partial["nat"];

  EXPECT_EQ(nat.rules["KUBE-SERVICES"], full.rules["KUBE-SERVICES"]) << "a rule for each Service";
  // Expect four shared chains, one SVC chain, three SEP chains, and the deleted chain.
  EXPECT_THAT(nat.chains, SizeIs(4 + 1 + 3 + 1));
  EXPECT_THAT(nat.deleted, ElementsAre(nat.chains.back()));
  EXPECT_THAT(full.chains, Contains(nat.deleted[0]));
  EXPECT_EQ(nat.chains[4], Target(full.rules["KUBE-SERVICES"][2]));
}

TEST(IptablesRulesTest, S236_ADeletedServiceTakesItsChainsAlong) {
  Cluster cluster({.services = 2, .endpoints = 2, .mix = Mix::kEverything});
  IptablesRules rules = Rules();
  rules.FullSync(cluster.ports(), true);
  const ClusterChange added = cluster.AddService(1);
  const ClusterChange removed = cluster.RemoveLastService();
  EXPECT_THAT(ReadRestore(rules.PartialSync(cluster.ports(), {added}, true))["nat"].deleted,
              IsEmpty());
  RestoreTable nat = ReadRestore(rules.PartialSync(cluster.ports(), {removed}, true))["nat"];
  EXPECT_THAT(nat.deleted, SizeIs(2));
  EXPECT_THAT(nat.chains, SizeIs(4 + 2));
}

TEST(IptablesRulesTest, S235_StaleChainsWaitForTheCleanUp) {
  ServicePort before = Web(2);
  ServicePort after = Web(1);
  const ClusterChange shrink{.before = before, .after = after};
  const ClusterChange grow{.before = after, .after = before};
  IptablesRules rules = Rules();
  rules.FullSync({before}, false);
  EXPECT_THAT(ReadRestore(rules.PartialSync({after}, {shrink}, false))["nat"].deleted, IsEmpty());
  EXPECT_THAT(ReadRestore(rules.PartialSync({after}, {}, true))["nat"].deleted, SizeIs(1));
  EXPECT_THAT(ReadRestore(rules.FullSync({after}, true))["nat"].deleted, IsEmpty()) << "only once";

  // The chain of an endpoint is not stale if the endpoint was removed and added again.
  rules.PartialSync({after}, {shrink}, false);
  EXPECT_THAT(ReadRestore(rules.PartialSync({before}, {grow}, true))["nat"].deleted, IsEmpty());
}

TEST(IptablesRulesTest, S236_AllPortsOfAChangedServiceAreWritten) {
  const ServicePort web = Web(1);
  ServicePort metrics = Web(1);
  metrics.port_name = "metrics";
  metrics.port = 9153;
  IptablesRules rules = Rules();
  rules.FullSync({web, metrics}, true);
  RestoreTable nat =
      ReadRestore(rules.PartialSync({web, metrics}, {{.before = web, .after = web}}, true))["nat"];
  EXPECT_THAT(nat.chains, SizeIs(4 + 4));
}

}  // namespace
}  // namespace svcmap::bench
