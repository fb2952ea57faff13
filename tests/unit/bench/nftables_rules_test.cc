#include "tests/bench/opponents/nftables_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace svcmap::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

IpAddress Address(const char* text) { return *IpAddress::Parse(text); }
IpPrefix Range(const char* text) { return *IpPrefix::Parse(text); }

const NftablesNode& NodeV4() {
  static const NftablesNode node{Address("192.0.2.10"), Range("10.64.0.0/14"),
                                 Range("10.96.0.0/16")};
  return node;
}

// Returns the Service port testing/service:http at 10.96.3.1:80, with one endpoint on this node and
// one endpoint on another node.
ServicePort WebService() {
  ServicePort port;
  port.name_space = "testing";
  port.service = "service";
  port.port_name = "http";
  port.cluster_ip = Address("10.96.3.1");
  port.port = 80;
  port.endpoints = {{{Address("10.64.2.21"), 8080}, 1}, {{Address("10.64.1.11"), 8080}, 0}};
  return port;
}

ServicePort WithoutEndpoints(ServicePort port) {
  port.endpoints.clear();
  return port;
}

// Returns a Service with nodePort 31001, external IP 198.51.100.40 and load balancer IP
// 198.51.100.20.
ServicePort ExternalService() {
  ServicePort port = WebService();
  port.node_port = 31001;
  port.external_ips = {Address("198.51.100.40")};
  port.load_balancer_ips = {Address("198.51.100.20")};
  return port;
}

std::vector<std::string> Commands(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// Returns the commands of a full sync that belong to the Service port.
std::vector<std::string> ServiceLines(const ServicePort& port) {
  const std::string base = NftablesFullSync(NodeV4(), {});
  std::vector<std::string> lines = Commands(NftablesFullSync(NodeV4(), {port}));
  EXPECT_TRUE(NftablesFullSync(NodeV4(), {port}).starts_with(base));
  lines.erase(lines.begin(), lines.begin() + static_cast<int64_t>(Commands(base).size()));
  return lines;
}

NftablesUpdate ChangeOf(const ServicePort* before, const ServicePort* after,
                        std::vector<ServicePort> others = {}) {
  ClusterChange change;
  if (before != nullptr) change.before = *before;
  if (after != nullptr) {
    change.after = *after;
    others.push_back(*after);
  }
  return NftablesChange(NodeV4(), others, {change});
}

auto HasAll(const std::vector<std::string>& lines) { return ::testing::IsSupersetOf(lines); }

// Returns the number of commands that start with the text `start`.
int CommandCount(const std::string& text, const std::string& start) {
  int count = 0;
  for (const std::string& line : Commands(text)) count += line.starts_with(start) ? 1 : 0;
  return count;
}

TEST(NftablesRulesTest, S129ToS136_BaseChains) {
  const std::vector<std::string> lines = Commands(NftablesFullSync(NodeV4(), {}));
  EXPECT_EQ(lines[0], "add table ip kube-proxy { comment \"rules for kube-proxy\" ; }");
  EXPECT_THAT(
      lines,
      HasAll({
          "add chain ip kube-proxy filter-prerouting-pre-dnat { type filter hook prerouting "
          "priority -110 ; }",
          "add chain ip kube-proxy filter-output-pre-dnat { type filter hook output priority -110 "
          "; }",
          "add chain ip kube-proxy filter-input { type filter hook input priority 0 ; }",
          "add chain ip kube-proxy filter-forward { type filter hook forward priority 0 ; }",
          "add chain ip kube-proxy filter-output { type filter hook output priority 0 ; }",
          "add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }",
          "add chain ip kube-proxy nat-output { type nat hook output priority -100 ; }",
          "add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100 ; }",
      }));
}

// The expected rules are from a published listing of a node with kube-proxy 1.36.2.
TEST(NftablesRulesTest, FixedRules) {
  EXPECT_THAT(
      Commands(NftablesFullSync(NodeV4(), {})),
      HasAll({
          "add rule ip kube-proxy services ip daddr @cluster-ips ip saddr != 10.64.0.0/14 mark set "
          "mark or 0x00004000 comment \"masquerade clusterIP traffic from outside cluster\"",
          "add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips",
          "add rule ip kube-proxy services ip daddr @nodeport-ips meta l4proto . th dport vmap "
          "@service-nodeports",
          "add rule ip kube-proxy masquerading mark and 0x00004000 != 0 mark set mark xor "
          "0x00004000 masquerade fully-random",
          "add rule ip kube-proxy masquerading ct status dnat ip saddr . ip daddr . meta l4proto . "
          "th dport @hairpin-connections masquerade fully-random",
          "add set ip kube-proxy cluster-ips { type ipv4_addr ; comment \"Active ClusterIPs\" ; }",
          "add element ip kube-proxy nodeport-ips { 192.0.2.10 }",
      }));
}

TEST(NftablesRulesTest, S140_S339_AServiceIsOneChainWithOneAnonymousMap) {
  const std::string chain = "ip kube-proxy service-P4ZYZVCF-testing/service/tcp/http";
  EXPECT_THAT(ServiceLines(WebService()),
              ElementsAre("add chain " + chain, "flush chain " + chain,
                          "add element ip kube-proxy hairpin-connections { 10.64.1.11 . "
                          "10.64.1.11 . tcp . 8080 }",
                          "add element ip kube-proxy cluster-ips { 10.96.3.1 }",
                          "add element ip kube-proxy service-ips { 10.96.3.1 . tcp . 80 : goto "
                          "service-P4ZYZVCF-testing/service/tcp/http }",
                          "add rule " + chain +
                              " meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { "
                              "0 : 10.64.1.11 . 8080 , 1 : 10.64.2.21 . 8080 }"));
}

// Tests the layout of kubernetes#140723, which uses no map for a single endpoint.
TEST(NftablesRulesTest, ASingleEndpointNeedsNoMapInTheNewerLayout) {
  ServicePort port = WebService();
  NftablesNode node = NodeV4();
  node.plain_single = true;
  EXPECT_EQ(NftablesFullSync(node, {port}), NftablesFullSync(NodeV4(), {port}));
  port.endpoints.resize(1);
  EXPECT_THAT(Commands(NftablesFullSync(node, {port})),
              HasAll({"add rule ip kube-proxy service-P4ZYZVCF-testing/service/tcp/http meta "
                      "l4proto tcp dnat to 10.64.2.21:8080"}));
}

TEST(NftablesRulesTest, Ipv6) {
  ServicePort port = WebService();
  port.cluster_ip = Address("fd00:96::1");
  port.endpoints = {{{Address("fd00:10::7"), 8080}, 0}};
  const NftablesNode node{Address("2001:db8:5::10"), Range("fd64::/64"), Range("fd00:96::/112")};
  EXPECT_THAT(
      Commands(NftablesFullSync(node, {port})),
      HasAll({
          "add set ip6 kube-proxy hairpin-connections { type ipv6_addr . ipv6_addr . inet_proto . "
          "inet_service ; comment \"service hairpin connections\" ; }",
          "add element ip6 kube-proxy service-ips { fd00:96::1 . tcp . 80 : goto "
          "service-P4ZYZVCF-testing/service/tcp/http }",
          "add rule ip6 kube-proxy service-P4ZYZVCF-testing/service/tcp/http meta l4proto tcp dnat "
          "ip6 addr . port to numgen random mod 1 map { 0 : fd00:10::7 . 8080 }",
      }));
}

TEST(NftablesRulesTest, S81_WithoutEndpointsAllDestinationsAreRejected) {
  EXPECT_THAT(
      ServiceLines(WithoutEndpoints(ExternalService())),
      UnorderedElementsAre(
          "add element ip kube-proxy cluster-ips { 10.96.3.1 }",
          "add element ip kube-proxy no-endpoint-services { 10.96.3.1 . tcp . 80 comment "
          "\"testing/service:http\" : goto reject-chain }",
          "add element ip kube-proxy no-endpoint-services { 198.51.100.40 . tcp . 80 comment "
          "\"testing/service:http\" : goto reject-chain }",
          "add element ip kube-proxy no-endpoint-services { 198.51.100.20 . tcp . 80 comment "
          "\"testing/service:http\" : goto reject-chain }",
          "add element ip kube-proxy no-endpoint-nodeports { tcp . 31001 comment "
          "\"testing/service:http\" : goto reject-chain }"));
}

TEST(NftablesRulesTest, S78_ExternalTrafficIsMasqueraded) {
  const std::string chain = "ip kube-proxy external-P4ZYZVCF-testing/service/tcp/http";
  EXPECT_THAT(ServiceLines(ExternalService()),
              HasAll({"add element ip kube-proxy service-nodeports { tcp . 31001 : goto "
                      "external-P4ZYZVCF-testing/service/tcp/http }",
                      "add element ip kube-proxy service-ips { 198.51.100.20 . tcp . 80 : "
                      "goto external-P4ZYZVCF-testing/service/tcp/http }",
                      "add rule " + chain + " mark set mark or 0x00004000 comment \"masquerade\"",
                      "add rule " + chain + " goto service-P4ZYZVCF-testing/service/tcp/http"}));
}

TEST(NftablesRulesTest, S79_LocalPolicyPrefersLocalEndpoints) {
  ServicePort port = ExternalService();
  port.external_local = true;
  const std::string base = "P4ZYZVCF-testing/service/tcp/http";
  const std::string external = "add rule ip kube-proxy external-" + base;
  EXPECT_THAT(ServiceLines(port),
              HasAll({external + " ip saddr 10.64.0.0/14 goto service-" + base +
                          " comment \"short-circuit pod traffic\"",
                      external + " fib saddr type local mark set mark or 0x00004000 comment "
                                 "\"masquerade local traffic\"",
                      external + " fib saddr type local goto service-" + base +
                          " comment \"short-circuit local traffic\"",
                      external + " goto local-" + base,
                      "add rule ip kube-proxy local-" + base +
                          " meta l4proto tcp dnat ip addr . port to numgen random mod 1 map { 0 : "
                          "10.64.1.11 . 8080 }"}));
}

TEST(NftablesRulesTest, S80_LocalPolicyWithoutLocalEndpointsDropsWhatNothingShortCircuits) {
  ServicePort port = ExternalService();
  port.external_local = true;
  port.endpoints.pop_back();
  const std::vector<std::string> lines = ServiceLines(port);
  EXPECT_THAT(lines, HasAll({
                         "add element ip kube-proxy no-endpoint-services { 198.51.100.20 . tcp . "
                         "80 comment \"testing/service:http\" : drop }",
                         "add element ip kube-proxy no-endpoint-nodeports { tcp . 31001 comment "
                         "\"testing/service:http\" : drop }",
                         "add element ip kube-proxy service-nodeports { tcp . 31001 : goto "
                         "external-P4ZYZVCF-testing/service/tcp/http }",
                     }));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("no-endpoint-services { 10.96.3.1 "))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("local-P4ZYZVCF"))));
}

TEST(NftablesRulesTest, S116_S119_SourceRangesHoldWithoutEndpointsToo) {
  ServicePort port = WithoutEndpoints(ExternalService());
  port.source_ranges = {Range("203.0.113.0/25"), Range("203.0.113.200/32")};
  EXPECT_THAT(ServiceLines(port),
              HasAll({
                  "add element ip kube-proxy firewall-ips { 198.51.100.20 . tcp . 80 : goto "
                  "firewall-P4ZYZVCF-testing/service/tcp/http }",
                  "add rule ip kube-proxy firewall-P4ZYZVCF-testing/service/tcp/http ip saddr != { "
                  "203.0.113.0/25 , 203.0.113.200/32 } drop",
              }));
}

TEST(NftablesRulesTest, S118_RangesWithTheNodeAllowTheLoadBalancerIpItself) {
  ServicePort port = ExternalService();
  port.source_ranges = {Range("192.0.2.0/24")};
  EXPECT_THAT(ServiceLines(port),
              Contains(HasSubstr("saddr != { 192.0.2.0/24 , 198.51.100.20 } drop")));
}

TEST(NftablesRulesTest, S140_AffinityMakesAChainAndASetOfEachEndpoint) {
  ServicePort port = WebService();
  port.endpoints = {{{Address("10.180.0.1"), 80}, 1}};
  port.affinity_seconds = 10800;
  const std::string endpoint = "JO2XBXZR-testing/service/tcp/http__10.180.0.1/80";
  const std::string rule = "add rule ip kube-proxy ";
  const std::string service = "service-P4ZYZVCF-testing/service/tcp/http ";
  EXPECT_THAT(
      ServiceLines(port),
      HasAll({"add set ip kube-proxy affinity-" + endpoint +
                  " { type ipv4_addr ; flags dynamic,timeout ; timeout 10800s ; }",
              rule + "endpoint-" + endpoint + " update @affinity-" + endpoint + " { ip saddr }",
              rule + "endpoint-" + endpoint + " meta l4proto tcp dnat to 10.180.0.1:80",
              rule + service + "ip saddr @affinity-" + endpoint + " goto endpoint-" + endpoint,
              rule + service + "numgen random mod 1 vmap { 0 : goto endpoint-" + endpoint + " }"}));
}

TEST(NftablesRulesTest, S337_AResyncRewritesAllChainsAndNoElement) {
  const std::string resync = NftablesResync(NodeV4(), {ExternalService()});
  EXPECT_THAT(resync, HasSubstr("flush chain ip kube-proxy services\n"));
  EXPECT_THAT(resync, HasSubstr("flush chain ip kube-proxy service-P4ZYZVCF-testing/"));
  EXPECT_EQ(CommandCount(resync, "add element"), 1) << "nodeport-ips only, which is flushed";
  EXPECT_EQ(CommandCount(resync, "delete"), 0);
}

TEST(NftablesRulesTest, S339_ANewService) {
  const ServicePort port = WebService();
  const std::string text = ChangeOf(nullptr, &port).transaction;
  EXPECT_EQ(CommandCount(text, "add element"), 3);
  EXPECT_EQ(CommandCount(text, "add chain") + CommandCount(text, "flush chain") +
                CommandCount(text, "add rule"),
            3);
  EXPECT_THAT(Commands(text), SizeIs(6));
}

TEST(NftablesRulesTest, S339_S341_ADeletedService) {
  const ServicePort port = WebService();
  const NftablesUpdate update = ChangeOf(&port, nullptr);
  EXPECT_EQ(CommandCount(update.transaction, "delete element"), 3);
  EXPECT_EQ(CommandCount(update.transaction, "flush chain"), 1);
  EXPECT_THAT(Commands(update.transaction), SizeIs(4));
  EXPECT_THAT(update.stale_chains, ElementsAre("service-P4ZYZVCF-testing/service/tcp/http"));
  EXPECT_EQ(NftablesDeleteChains(Family::kIpv4, update.stale_chains),
            "delete chain ip kube-proxy service-P4ZYZVCF-testing/service/tcp/http\n");
}

TEST(NftablesRulesTest, S339_EndpointsAppearAndGo) {
  const ServicePort port = WebService();
  const ServicePort empty = WithoutEndpoints(WebService());
  EXPECT_THAT(Commands(ChangeOf(nullptr, &empty).transaction), SizeIs(2));
  const NftablesUpdate appear = ChangeOf(&empty, &port);
  EXPECT_EQ(CommandCount(appear.transaction, "add element"), 2);
  EXPECT_EQ(CommandCount(appear.transaction, "delete element"), 1);
  EXPECT_THAT(Commands(appear.transaction), SizeIs(6));
  const NftablesUpdate go = ChangeOf(&port, &empty);
  EXPECT_EQ(CommandCount(go.transaction, "add element"), 1);
  EXPECT_EQ(CommandCount(go.transaction, "delete element"), 2);
  EXPECT_EQ(CommandCount(go.transaction, "flush chain"), 1);
  EXPECT_THAT(Commands(go.transaction), SizeIs(4));
}

TEST(NftablesRulesTest, S339_ALocalEndpointReplacedOrAdded) {
  const ServicePort port = WebService();
  ServicePort replaced = WebService();
  replaced.endpoints[1].address.ip = Address("10.64.1.12");
  const std::string text = ChangeOf(&port, &replaced).transaction;
  EXPECT_EQ(CommandCount(text, "add element"), 1);
  EXPECT_EQ(CommandCount(text, "delete element"), 1);
  EXPECT_THAT(Commands(text), SizeIs(5));
  ServicePort added = WebService();
  added.endpoints.push_back({{Address("10.64.1.12"), 8080}, 0});
  EXPECT_THAT(Commands(ChangeOf(&port, &added).transaction), SizeIs(4));
}

TEST(NftablesRulesTest, S339_ARemoteEndpointTouchesTheChainOnly) {
  const ServicePort port = WebService();
  ServicePort replaced = WebService();
  replaced.endpoints[0].address.ip = Address("10.64.2.22");
  EXPECT_THAT(Commands(ChangeOf(&port, &replaced).transaction), SizeIs(3));
}

TEST(NftablesRulesTest, S334_ChangesOfOneServiceAreOne) {
  const ServicePort port = WebService();
  ServicePort one = WebService();
  one.endpoints[1].address.ip = Address("10.64.1.12");
  ServicePort two = WebService();
  two.endpoints[1].address.ip = Address("10.64.1.13");
  const NftablesUpdate both = NftablesChange(NodeV4(), {two},
                                             {{.before = port, .after = one, .messages = {}},
                                              {.before = one, .after = two, .messages = {}}});
  EXPECT_EQ(both.transaction, ChangeOf(&port, &two).transaction);
  EXPECT_THAT(
      NftablesChange(NodeV4(), {}, {{.after = port, .messages = {}}, {.before = port}}).transaction,
      IsEmpty());
}

TEST(NftablesRulesTest, WhatAnotherPortHasTooStays) {
  const ServicePort port = WebService();
  ServicePort other = WebService();
  other.port_name = "admin";
  other.port = 8081;
  const std::string gone = ChangeOf(&port, nullptr, {other}).transaction;
  EXPECT_THAT(gone, Not(HasSubstr("cluster-ips")));
  EXPECT_THAT(gone, Not(HasSubstr("hairpin-connections")));
  EXPECT_EQ(CommandCount(gone, "delete element"), 1);
  EXPECT_EQ(CommandCount(ChangeOf(nullptr, &port, {other}).transaction, "add element"), 1);
}

TEST(NftablesRulesTest, S126_AnEndpointThatLeavesLosesItsAffinitySetAtOnceAndItsChainLater) {
  ServicePort port = WebService();
  port.affinity_seconds = 60;
  ServicePort fewer = port;
  fewer.endpoints.pop_back();
  const NftablesUpdate update = ChangeOf(&port, &fewer);
  EXPECT_EQ(CommandCount(update.transaction, "delete set ip kube-proxy affinity-"), 1);
  ASSERT_THAT(update.stale_chains, SizeIs(1));
  EXPECT_THAT(update.stale_chains[0], HasSubstr("__10.64.1.11/8080"));
  EXPECT_THAT(update.transaction, HasSubstr("flush chain ip kube-proxy " + update.stale_chains[0]));
}

TEST(NftablesRulesTest, AVerdictThatChangesIsDeletedAndAdded) {
  ServicePort port = WithoutEndpoints(ExternalService());
  port.external_local = true;
  ServicePort remote = port;
  remote.endpoints = {{{Address("10.64.2.21"), 8080}, 1}};
  const std::string text = ChangeOf(&port, &remote).transaction;
  EXPECT_THAT(text, HasSubstr("delete element ip kube-proxy no-endpoint-nodeports { tcp . 31001 }\n"
                              "add element ip kube-proxy no-endpoint-nodeports { tcp . 31001 "
                              "comment \"testing/service:http\" : drop }\n"));
  EXPECT_EQ(CommandCount(text, "delete element ip kube-proxy no-endpoint-nodeports"), 1);
}

}  // namespace
}  // namespace svcmap::bench
