// Tests of the hooks and priorities in svcmapd's tables. Other tables can still drop packets.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

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

}  // namespace
}  // namespace svcmap::testing
