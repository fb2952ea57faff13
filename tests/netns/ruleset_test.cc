// Tests of the hooks and priorities in svcmapd's tables. Other tables can still drop packets.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/netns/flow.h"
#include "tests/netns/service_world.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

using OpenFlowTest = ServiceFamilyTest;

struct Hook {
  const char* requirement;
  const char* declaration;  // The declaration of the base chain in nft syntax.
  const char* work;         // Chain to which the base chain jumps.
};

constexpr Hook kHooks[] = {
    {"S129", "type filter hook prerouting priority -110; policy accept;", "firewall-check"},
    {"S130", "type filter hook output priority -110; policy accept;", "firewall-check"},
    {"S131", "type nat hook prerouting priority -100; policy accept;", "services"},
    {"S132", "type nat hook output priority -100; policy accept;", "services"},
    {"S133", "type filter hook input priority 0; policy accept;", "service-endpoints-check"},
    {"S134", "type filter hook forward priority 0; policy accept;", "cluster-ips-check"},
    {"S135", "type filter hook output priority 0; policy accept;", "cluster-ips-check"},
    {"S136", "type nat hook postrouting priority 100; policy accept;", "masquerade"},
};

class HookTest : public FlowTest, public ::testing::WithParamInterface<std::tuple<bool, Hook>> {
 protected:
  static const Hook& hook() { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, HookTest,
                         ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(kHooks)),
                         [](const ::testing::TestParamInfo<std::tuple<bool, Hook>>& info) {
                           return absl::StrCat(std::get<1>(info.param).requirement,
                                               std::get<0>(info.param) ? "_IPv6" : "_IPv4");
                         });

TEST_P(HookTest, IsWhereItShouldBe) {
  ASSERT_OK_AND_ASSIGN(
      const std::string table,
      Nft(node().netns(),
          absl::StrCat("-y -t list table ", std::get<0>(GetParam()) ? "ip6" : "ip", " svcmap")));
  const size_t chain = table.find(hook().declaration);
  ASSERT_NE(chain, std::string::npos) << table;
  EXPECT_EQ(table.find(hook().declaration, chain + 1), std::string::npos);
  const std::string rules = table.substr(chain, table.find('}', chain) - chain);
  EXPECT_NE(rules.find(hook().work), std::string::npos) << rules;
}

using CoexistenceTest = FlowFamilyTest;
INSTANTIATE_FAMILIES(CoexistenceTest);

// There is one table per family, independent of the Services. The rules never accept packets, never
// drop packets because of their conntrack state, and never match addresses of the host.
TEST_P(CoexistenceTest, S137_S145_S147_S150_NothingIsDecidedThatIsNotAboutServices) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kV).ExternalPolicy("Local")} +
                          Slices(*world(), "shop/web", "L1 R1")));
  ASSERT_OK_AND_ASSIGN(const std::string tables, Nft(node().netns(), "list tables"));
  EXPECT_EQ(tables, "table ip svcmap\ntable ip6 svcmap\n");
  ASSERT_OK_AND_ASSIGN(
      const std::string table,
      Nft(node().netns(), absl::StrCat("-s list table ", v6() ? "ip6" : "ip", " svcmap")));
  const std::string rules = absl::StrReplaceAll(table, {{"policy accept;", ""}});
  for (const char* text : {"policy drop", "accept", "invalid", "127.0.0.0/8", "::1/128"}) {
    EXPECT_EQ(rules.find(text), std::string::npos) << text;
  }
}

// A firewall in another table sees packets after the translation.
TEST_P(CoexistenceTest, S137_S146_AFirewallThatDropsForwardedPacketsMustAllowThem) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kV)} + Slices(*world(), "shop/web", "L1")));
  ASSERT_OK(RunNft(node().netns(),
                   "table inet firewall {\n"
                   "chain forward { type filter hook forward priority 10; policy drop;\n"
                   "ct state established,related accept\n}\n}\n"));
  Expect({"P -> V:80", "DROP"});
  Expect({"X -> N:NP", "DROP"});
  ASSERT_OK(RunNft(node().netns(), "add rule inet firewall forward tcp dport 8080 accept\n"));
  Expect({"P -> V:80", "L1 -"});
  Expect({"X -> N:NP", "L1 m"});
  ASSERT_OK(RunNft(node().netns(), "delete table inet firewall\n"));
}

// Tests that changes affect new connections and keep existing connections.

INSTANTIATE_FAMILIES(OpenFlowTest);

using RulesetTest = ServiceTest;

TEST_F(RulesetTest, S138_S353_ServicesChangeOnlyElements) {
  ASSERT_OK_AND_ASSIGN(const std::string rules, Nft(node().netns(), "-t list ruleset"));
  const auto expect_the_same_rules = [&](const char* when) {
    const auto now = Nft(node().netns(), "-t list ruleset");
    ASSERT_OK(now);
    EXPECT_EQ(*now, rules) << when;
    ExpectAppliedIsInTheKernel(agent(), node().netns());
  };
  Objects objects = {ExternalWeb("shop/web", kWeb)};
  for (int i = 11; i < 90; ++i) objects.push_back(Web(absl::StrCat("shop/s", i), ClusterIp(i)));
  ASSERT_OK(agent().Apply(objects + WebSlices("shop/web", {&pod_a(), &remote_pod()}) +
                          WebSlices("shop/s11", {&pod_b()})));
  expect_the_same_rules("Services");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_b()}) + WebSlices("shop/s11", {})));
  expect_the_same_rules("endpoints");
  ASSERT_OK(agent().Replace(Basics()));
  expect_the_same_rules("no Services");
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  for (const v1::MapCount& map : status.maps()) {
    if (map.name() != "service-ips" && map.name() != "endpoints") continue;
    EXPECT_EQ(map.elements(), 0u) << map.ShortDebugString();
  }
}

TEST_P(OpenFlowTest, S95_S101_AnOpenConnectionOutlivesItsEndpointAndItsService) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const std::vector<Request> requests = {{.destination = kWeb.in(v6()), .port = 80},
                                         {.destination = kExternalIp.in(v6()), .port = 80},
                                         {.destination = kNode.in(v6()), .port = kNodePort}};
  std::vector<TcpFlow> flows;
  for (const Host* from : {&pod_b(), &client(), &node()}) {
    for (const Request& request : requests) {
      ASSERT_OK_AND_ASSIGN(TcpFlow flow, TcpFlow::Open(from->netns(), request));
      flows.push_back(std::move(flow));
    }
  }
  const auto all_flow = [&](const char* when) {
    for (TcpFlow& flow : flows) EXPECT_OK(flow.Exchange(100'000)) << when;
  };
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  all_flow("replaced endpoint");
  EXPECT_EQ(Ask(pod_b().netns(), requests[0]).server, "remote-pod");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {})));
  all_flow("no endpoints");
  for (const Request& request : requests) EXPECT_REJECTED(Ask(pod_b().netns(), request));
  ASSERT_OK(agent().Remove({ServiceRef("shop/web")}));
  all_flow("no Service");
}

}  // namespace
}  // namespace svcmap::testing
