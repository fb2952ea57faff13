// Tests the exact preflight messages for given facts, and the code that reads facts from files.
#include "api/preflight/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/migration/node_report.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::api {
namespace {

Facts Healthy() {
  Facts facts;
  facts.ip_forward = 1;
  facts.ipv6_forwarding = 1;
  facts.bridge_iptables = 1;
  facts.bridge_ip6tables = 1;
  facts.conntrack_max = 262144;
  facts.rp_filter = {{"all", 0}, {"default", 2}, {"lo", 1}, {"eth0", 0}};
  facts.ipv6_in_use = true;
  facts.bridges = {{.name = "cni0"}};
  for (const char* family : {"ip", "ip6"}) {
    facts.chains.push_back({family, "svcmap", "filter-forward", {{"filter", "forward", 0}}});
  }
  return facts;
}

nft::ForeignChain Chain(const char* family, const char* table, const char* name, const char* hook,
                        bool drop) {
  return {family, table, name, nft::ForeignChain::Hook{"filter", hook, 0, drop}};
}

std::vector<std::string> Lines(const Facts& facts) {
  std::vector<std::string> lines;
  for (const Warning& warning : Judge(facts)) lines.push_back(warning.ToString());
  return lines;
}

struct Case {
  const char* name;
  std::function<void(Facts&)> spoil;
  std::vector<std::string> lines;
};

#define UPLINK                                                                                \
  "packets are dropped if their replies use a different interface, for example packets from " \
  "nodePort clients behind a second uplink"

std::vector<Case> Cases() {
  return {
      {"Healthy", [](Facts&) {}, {}},
      {"Ipv4ForwardingOff",
       [](Facts& f) { f.ip_forward = 0; },
       {"net.ipv4.ip_forward is 0: IPv4 packets from pods and from external clients are not "
        "forwarded; remedy: sysctl -w net.ipv4.ip_forward=1"}},
      {"Ipv6ForwardingOff",
       [](Facts& f) { f.ipv6_forwarding = 0; },
       {"net.ipv6.conf.all.forwarding is 0: IPv6 packets from pods and from external clients are "
        "not forwarded; remedy: sysctl -w net.ipv6.conf.all.forwarding=1 (first set accept_ra=2 on "
        "interfaces that get their routes from router advertisements)"}},
      {"Ipv6NotInUse",
       [](Facts& f) {
         f.ipv6_in_use = false;
         f.ipv6_forwarding = 0;
         f.bridge_ip6tables = 0;
       },
       {}},
      {"NoIpv6InTheKernel",
       [](Facts& f) {
         f.ipv6_in_use = false;
         f.ipv6_forwarding.reset();
       },
       {}},
      {"NoConntrack",
       [](Facts& f) { f.conntrack_max.reset(); },
       {"net.netfilter.nf_conntrack_max is missing: address translation requires connection "
        "tracking; remedy: modprobe nf_conntrack"}},
      {"BridgeNetfilterOff",
       [](Facts& f) { f.bridge_iptables = 0; },
       {"net.bridge.bridge-nf-call-iptables is 0: replies between pods on the same bridge (cni0) "
        "bypass address translation, so their connections to Services time out; remedy: sysctl -w "
        "net.bridge.bridge-nf-call-iptables=1"}},
      {"BridgeNetfilterNotLoaded",
       [](Facts& f) {
         f.bridge_iptables.reset();
         f.bridge_ip6tables.reset();
         f.bridges = {{"br0"}, {"br1"}, {"br2"}, {"br3"}, {"br4"}};
       },
       {"net.bridge.bridge-nf-call-iptables is missing (br_netfilter is not loaded): replies "
        "between pods on the same bridge (br0, br1, br2 and 2 others) bypass address translation, "
        "so their connections to Services time out; remedy: modprobe br_netfilter && sysctl -w "
        "net.bridge.bridge-nf-call-iptables=1",
        "net.bridge.bridge-nf-call-ip6tables is missing (br_netfilter is not loaded): replies "
        "between pods on the same bridge (br0, br1, br2 and 2 others) bypass address translation, "
        "so their connections to Services time out; remedy: modprobe br_netfilter && sysctl -w "
        "net.bridge.bridge-nf-call-ip6tables=1"}},
      {"NoBridgeNoBridgeNetfilter",
       [](Facts& f) {
         f.bridge_iptables.reset();
         f.bridge_ip6tables.reset();
         f.bridges.clear();
       },
       {}},
      {"BridgesThatCallTheHooksThemselves",
       [](Facts& f) {
         f.bridge_iptables = 0;
         f.bridge_ip6tables = 0;
         f.bridges = {{"br0", true, true}, {"br1", true, false}};
       },
       {"net.bridge.bridge-nf-call-ip6tables is 0: replies between pods on the same bridge (br1) "
        "bypass address translation, so their connections to Services time out; remedy: sysctl -w "
        "net.bridge.bridge-nf-call-ip6tables=1"}},
      {"RpFilterStrictOnAll",
       [](Facts& f) {
         f.rp_filter = {{"all", 1}, {"default", 2}, {"eth0", 0}, {"lo", 0}};
       },
       {"net.ipv4.conf.all.rp_filter is 1 (strict): " UPLINK
        "; remedy: sysctl -w net.ipv4.conf.all.rp_filter=2"}},
      {"RpFilterStrictOnOneVlan",
       [](Facts& f) { f.rp_filter["eth0.7"] = 1; },
       {"net.ipv4.conf.eth0/7.rp_filter is 1 (strict): " UPLINK
        "; remedy: sysctl -w net.ipv4.conf.eth0/7.rp_filter=2"}},
      {"RpFilterStrictOnMany",
       [](Facts& f) {
         for (const char* name : {"default", "eth0", "eth1", "veth1", "veth2"}) {
           f.rp_filter[name] = 1;
         }
       },
       {"net.ipv4.conf.*.rp_filter is 1 (strict) on default, eth0, eth1 and 2 others: " UPLINK
        "; remedy: sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2 for each interface that receives "
        "such packets"}},
      {"RpFilterLooseOnAllCoversStrictInterfaces",
       [](Facts& f) {
         f.rp_filter = {{"all", 2}, {"default", 1}, {"eth0", 1}};
       },
       {}},
      {"RpFilterStrictOnAllCoveredByLooseInterfaces",
       [](Facts& f) {
         f.rp_filter = {{"all", 1}, {"default", 2}, {"eth0", 2}, {"lo", 0}};
       },
       {}},
      {"ForwardChainDrops",
       [](Facts& f) { f.chains.push_back(Chain("ip", "filter", "FORWARD", "forward", true)); },
       {"chain FORWARD of table ip filter drops forwarded packets by default: connections to "
        "Services work only if a rule in this chain accepts them; remedy: iptables-nft -I FORWARD "
        "-m conntrack --ctstate DNAT -j ACCEPT"}},
      {"ForwardChainOfATableNamedLikeOurs",
       [](Facts& f) { f.chains.push_back(Chain("inet", "svcmap", "x\n", "forward", true)); },
       {"chain x\\u000a of table inet svcmap drops forwarded packets by default: connections to "
        "Services work only if a rule in this chain accepts them; remedy: nft insert rule inet "
        "svcmap x\\u000a ct status dnat accept"}},
      {"ChainsThatDoNotMatter",
       [](Facts& f) {
         f.chains.push_back(Chain("inet", "fw", "input", "input", true));
         f.chains.push_back(Chain("inet", "fw", "forward", "forward", false));
         f.chains.push_back(Chain("bridge", "fw", "forward", "forward", true));
         f.chains.push_back(Chain("ip", "svcmap", "forward", "forward", true));
         f.chains.push_back({"inet", "fw", "forward", {}});
         f.chains.push_back({"ip", "nat", "KUBE-SVC-X", {}});
         f.chains.push_back({"ip", "filter", "KUBE-SERVICES", {}});
       },
       {}},
      {"LegacyIptables",
       [](Facts& f) { f.legacy_iptables_filter = f.legacy_ip6tables_filter = true; },
       {"table filter of iptables-legacy is in use, and svcmapd cannot read its rules: if the "
        "policy of its FORWARD chain is DROP, connections to Services work only if a rule accepts "
        "them; remedy: check with iptables-legacy -S FORWARD; accept with iptables-legacy -I "
        "FORWARD -m conntrack --ctstate DNAT -j ACCEPT",
        "table filter of ip6tables-legacy is in use, and svcmapd cannot read its rules: if the "
        "policy of its FORWARD chain is DROP, connections to Services work only if a rule accepts "
        "them; remedy: check with ip6tables-legacy -S FORWARD; accept with ip6tables-legacy -I "
        "FORWARD -m conntrack --ctstate DNAT -j ACCEPT"}},
      {"KubeProxyIsThere",
       [](Facts& f) {
         f.chains.push_back(Chain("ip", "kube-proxy", "nat-prerouting", "prerouting", false));
         f.chains.push_back({"ip", "kube-proxy", "services", {}});
         f.chains.push_back({"ip6", "nat", "KUBE-SERVICES", {}});
       },
       {"table ip kube-proxy exists: rules of a running or former kube-proxy also translate "
        "Service "
        "addresses; remedy: if kube-proxy no longer runs on this node, start svcmapd with "
        "--remove-kube-proxy or run kube-proxy --cleanup",
        "table ip6 nat has a chain KUBE-SERVICES: rules of a running or former kube-proxy also "
        "translate Service addresses; remedy: if kube-proxy no longer runs on this node, start "
        "svcmapd with --remove-kube-proxy or run kube-proxy --cleanup"}},
      {"Unread",
       [](Facts& f) { f.unread = {"read the chains of nf_tables: no"}; },
       {"node configuration only partly checked: read the chains of nf_tables: no; remedy: if "
        "Services do not work, inspect the output of nft list ruleset and of ip link"}},
  };
}

TEST(JudgeTest, Lines) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    Facts facts = Healthy();
    c.spoil(facts);
    EXPECT_EQ(Lines(facts), c.lines);
    for (const std::string& line : Lines(facts)) EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

// Several problems at the same time must each cause a separate warning.
TEST(JudgeTest, NoRuleHidesAnother) {
  Facts facts = Healthy();
  facts.ip_forward = 0;
  facts.bridge_iptables = 0;
  facts.rp_filter["all"] = 1;
  facts.chains.push_back(Chain("ip", "filter", "FORWARD", "forward", true));
  facts.legacy_iptables_filter = true;
  facts.chains.push_back({"ip", "nat", "KUBE-SERVICES", {}});
  EXPECT_EQ(Lines(facts).size(), 6u);
}

TEST(MissingFeaturesStatusTest, NothingLackingIsOk) {
  EXPECT_TRUE(MissingFeaturesStatus({}, {"6.1.0", false}).ok());
  EXPECT_TRUE(MissingFeaturesStatus({}, {"6.1.0", true}).ok());
}

TEST(MissingFeaturesStatusTest, OneLineNamesAllFeaturesAndTheRemedy) {
  const nft::MissingFeature masquerade = {Family::kIpv4, "masquerade", "CONFIG_NFT_MASQ",
                                          "nft_masq", ENOENT};
  nft::MissingFeature masquerade6 = masquerade;
  masquerade6.family = Family::kIpv6;
  const nft::MissingFeature comments = {Family::kIpv4, "chain comments", "", "", EINVAL};
  const nft::MissingFeature rule = {Family::kIpv6, "add rule to services: drop", "", "", EINVAL};
  const struct {
    const char* name;
    std::vector<nft::MissingFeature> features;
    KernelFacts kernel;
    const char* message;  // Without "missing kernel features: ".
  } cases[] = {
      {"several modules",
       {masquerade,
        {Family::kIpv4, "reject", "CONFIG_NFT_REJECT_IPV4", "nft_reject_ipv4", ENOENT},
        masquerade6,
        {Family::kIpv6, "nf_tables", "CONFIG_NF_TABLES", "nf_tables", EOPNOTSUPP}},
       {"5.10.0-46-cloud-amd64"},
       "masquerade for IPv4 and IPv6 (CONFIG_NFT_MASQ, ENOENT), reject for IPv4 "
       "(CONFIG_NFT_REJECT_IPV4, ENOENT), nf_tables for IPv6 (CONFIG_NF_TABLES, EOPNOTSUPP); "
       "remedy: modprobe -a nft_masq nft_reject_ipv4 nf_tables, or use a kernel with the listed "
       "options"},
      {"an old kernel",
       {comments, masquerade},
       {"5.4.0-150-generic"},
       "chain comments for IPv4 (EINVAL), masquerade for IPv4 (CONFIG_NFT_MASQ, ENOENT); remedy: "
       "use Linux 5.10 or later, this node runs Linux 5.4.0-150-generic"},
      {"an old kernel with a missing module only",
       {masquerade},
       {"5.4.0-150-generic"},
       "masquerade for IPv4 (CONFIG_NFT_MASQ, ENOENT); remedy: modprobe -a nft_masq, or use a "
       "kernel with the listed options"},
      {"a new kernel is not sent to an older version",
       {comments},
       {"5.10.0-46-cloud-amd64"},
       "chain comments for IPv4 (EINVAL); remedy: Linux 5.10.0-46-cloud-amd64 is new enough, so "
       "report this error to the svcmap project, and use a kernel of the table in docs/install.md "
       "(tested kernels)"},
      {"an option without a module",
       {{Family::kIpv6, "filter chains", "CONFIG_NF_TABLES_IPV6", "", ENOENT}},
       {"6.18.0"},
       "filter chains for IPv6 (CONFIG_NF_TABLES_IPV6, ENOENT); remedy: use a kernel with the "
       "listed options"},
      {"version with two digits",
       {rule},
       {"10.2"},
       "add rule to services: drop for IPv6 (EINVAL); remedy: Linux 10.2 is new enough, so report "
       "this error to the svcmap project, and use a kernel of the table in docs/install.md (tested "
       "kernels)"},
      {"modules cannot be loaded before the next boot",
       {masquerade},
       {"6.1.0", true},
       "masquerade for IPv4 (CONFIG_NFT_MASQ, ENOENT); remedy: kernel.modules_disabled is 1, so "
       "add "
       "the modules nft_masq to /etc/modules-load.d and reboot, or use a kernel with the listed "
       "options"},
  };
  for (const auto& c : cases) {
    const absl::Status status = MissingFeaturesStatus(c.features, c.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << c.name;
    EXPECT_EQ(std::string(status.message()), absl::StrCat("missing kernel features: ", c.message))
        << c.name;
  }
}

// Creates a directory tree with the layout of /proc.
class ReadProcTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  Facts Read() const { return ReadProc({root_ / "sys", root_ / "net"}); }
  bool ModulesDisabled() const {
    return ReadKernelFacts({.sysctl = root_ / "sys"}).modules_disabled;
  }

  const svcmap::testing::TemporaryFolder folder_ = *svcmap::testing::TemporaryFolder::Make();
  const std::filesystem::path root_ = folder_.path();
};

TEST_F(ReadProcTest, ModulesDisabled) {
  EXPECT_FALSE(ModulesDisabled());
  Write("sys/kernel/modules_disabled", "0\n");
  EXPECT_FALSE(ModulesDisabled());
  Write("sys/kernel/modules_disabled", "1\n");
  EXPECT_TRUE(ModulesDisabled());
}

// Causes an error other than ENOENT with a symbolic link that refers to itself. EACCES cannot be
// tested, because root can read all files.
TEST_F(ReadProcTest, WhatMayNotBeReadIsNotMistakenForNothing) {
  std::filesystem::create_directories(root_ / "net");
  std::filesystem::create_symlink("ip_tables_names", root_ / "net/ip_tables_names");
  const Facts facts = Read();
  EXPECT_EQ(facts.legacy_iptables_filter, std::nullopt);
  EXPECT_EQ(facts.legacy_ip6tables_filter, false);
  const std::vector<Warning> warnings = Judge(facts);
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const Warning& warning) {
    return warning.about == NodeReport::kLegacyFilter &&
           warning.what.starts_with("cannot check table filter of iptables-legacy without root");
  }));
}

TEST_F(ReadProcTest, LinkLocalAndLoopbackAddressesAreNoUseOfIpv6) {
  Write("net/if_inet6",
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "fd000000000000000000000000000001 01 80 00 80       lo\n"
        "fe800000000000000000000000000001 02 40 20 80     eth0\n");
  EXPECT_FALSE(Read().ipv6_in_use);
}

TEST_F(ReadProcTest, NonsenseIsAsGoodAsMissing) {
  Write("sys/net/ipv4/ip_forward", "yes\n");
  Write("net/if_inet6", "nonsense\n\n");
  EXPECT_EQ(Read().ip_forward, std::nullopt);
  EXPECT_FALSE(Read().ipv6_in_use);
}

}  // namespace
}  // namespace svcmap::api
