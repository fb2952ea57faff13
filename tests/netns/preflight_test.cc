// Tests of the preflight checks on the real kernel. A correctly configured namespace causes no
// warning, each problem causes a specific warning, and the probe leaves no objects behind.
#include "api/preflight/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nft/netlink/netlink_kernel.h"
#include "nft/netlink/socket.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/support/netns.h"
#include "tests/support/not_applicable.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::api {
namespace {

using ::svcmap::UniqueFd;
using ::svcmap::testing::NetNs;
using ::svcmap::testing::NotApplicable;
using ::svcmap::testing::RunNft;
using ::svcmap::testing::RunOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

nft::TableSpecs OurTables() {
  proxy::RulesetOptions options;
  options.cluster_cidr[Index(Family::kIpv4)] = *IpPrefix::Parse("10.244.0.0/16");
  options.cluster_cidr[Index(Family::kIpv6)] = *IpPrefix::Parse("fd00:10:244::/56");
  nft::TableSpecs tables;
  for (const Family family : kFamilies) tables.push_back(proxy::MakeTable(family, options));
  return tables;
}

// Drops CAP_NET_ADMIN of the calling thread permanently.
void DropNetAdmin() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
  data[CAP_TO_INDEX(CAP_NET_ADMIN)].effective &= ~CAP_TO_MASK(CAP_NET_ADMIN);
  data[CAP_TO_INDEX(CAP_NET_ADMIN)].permitted &= ~CAP_TO_MASK(CAP_NET_ADMIN);
  ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
}

class PreflightTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    for (const char* key :
         {"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding",
          "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"}) {
      ASSERT_OK(netns_->WriteSysctl(key, "1"));
    }
    for (const char* name : {"all", "default", "lo"}) SetRpFilter(name, "0");
    Ip({"link", "add", "v0", "type", "veth", "peer", "name", "v1"});
    Ip({"link", "set", "v0", "up"});
    Ip({"link", "set", "v1", "up"});
    Ip({"address", "add", "fd00:10::1/64", "dev", "v0", "nodad"});
  }

  void Ip(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ip");
    ASSERT_OK(RunOk({.argv = arguments, .netns = &*netns_}).status());
  }
  void SetRpFilter(const std::string& name, const std::string& value) {
    ASSERT_OK(netns_->WriteSysctl(absl::StrCat("net/ipv4/conf/", name, "/rp_filter"), value));
  }
  void Nft(const std::string& script) { ASSERT_OK(RunNft(*netns_, script)); }
  std::string Listing() { return *RunOk({.argv = {"nft", "list", "ruleset"}, .netns = &*netns_}); }
  uint32_t Generation() {
    return netns_->Run([] { return *(*nft::NetlinkKernel::Open(OurTables()))->Generation(); });
  }
  absl::StatusOr<std::vector<nft::MissingFeature>> FindMissingFeatures(
      const nft::TableSpecs& tables) {
    return netns_->Run([&] { return nft::FindMissingFeatures(tables); });
  }

  // Returns the warnings of the preflight checks.
  std::vector<std::string> Lines() {
    const absl::StatusOr<std::vector<Warning>> warnings =
        netns_->Run([] { return Preflight(OurTables()); });
    EXPECT_OK(warnings);
    std::vector<std::string> lines;
    if (!warnings.ok()) return lines;
    for (const Warning& warning : *warnings) lines.push_back(warning.ToString());
    return lines;
  }

  std::optional<NetNs> netns_;
};

TEST_F(PreflightTest, NothingToSayWhenAllIsRight) {
  Ip({"link", "add", "cni0", "type", "bridge"});
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(PreflightTest, OurOwnTablesAndHarmlessOnesAreNoProblem) {
  const absl::Status created = netns_->Run([] {
    auto kernel = *nft::NetlinkKernel::Open(OurTables());
    nft::Transaction transaction;
    for (const Family family : kFamilies) {
      transaction.CreateTable({family});
    }
    return kernel->Apply(transaction).error;
  });
  ASSERT_OK(created);
  Nft("table inet fw { chain f { type filter hook forward priority 0; policy accept; }\n"
      "chain i { type filter hook input priority 0; policy drop; }; }\n"
      "table netdev n { chain c { type filter hook ingress device v0 priority 0; }; }\n");
  const std::string before = Listing();
  EXPECT_THAT(Lines(), IsEmpty());
  EXPECT_EQ(Listing(), before);
}

// svcmapd counts connections if the kernel supports counters, and otherwise starts without
// counters.
TEST_F(PreflightTest, CountersAreProbed) {
  nft::TableSpecs tables;
  for (const Family family : kFamilies) {
    tables.push_back(proxy::MakeTable(family, {.count_connections = true}));
  }
  const std::string before = Listing();
  EXPECT_OK(netns_->Run([&] { return ProbeTables(tables); }));
  // Rules cannot update a set without a dynamic size.
  tables[1].sets.back().dynamic_size = 0;
  const absl::Status rejected = netns_->Run([&] { return ProbeTables(tables); });
  EXPECT_THAT(std::string(rejected.message()),
              AllOf(HasSubstr("IPv6"), HasSubstr("update @service-connections")));
  EXPECT_EQ(Listing(), before);
}

TEST_F(PreflightTest, Forwarding) {
  ASSERT_OK(netns_->WriteSysctl("net/ipv4/ip_forward", "0"));
  ASSERT_OK(netns_->WriteSysctl("net/ipv6/conf/all/forwarding", "0"));
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("net.ipv4.ip_forward is 0: "),
                                   StartsWith("net.ipv6.conf.all.forwarding is 0: ")));
  Ip({"address", "del", "fd00:10::1/64", "dev", "v0"});
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("net.ipv4.ip_forward is 0: ")));
}

TEST_F(PreflightTest, Bridges) {
  ASSERT_OK(netns_->WriteSysctl("net/bridge/bridge-nf-call-iptables", "0"));
  ASSERT_OK(netns_->WriteSysctl("net/bridge/bridge-nf-call-ip6tables", "0"));
  EXPECT_THAT(Lines(), IsEmpty());
  Ip({"link", "add", "cni0", "type", "bridge"});
  EXPECT_THAT(Lines(),
              ElementsAre(StartsWith("net.bridge.bridge-nf-call-iptables is 0: replies between "
                                     "pods on the same bridge (cni0) "),
                          StartsWith("net.bridge.bridge-nf-call-ip6tables is 0: ")));
  Ip({"link", "set", "cni0", "type", "bridge", "nf_call_iptables", "1"});
  EXPECT_THAT(netns_->Run([] { return *nft::ReadBridges(); }),
              ElementsAre(nft::Bridge{"cni0", true, false}));
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("net.bridge.bridge-nf-call-ip6tables is 0: ")));
}

TEST_F(PreflightTest, RpFilter) {
  SetRpFilter("v1", "1");
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("net.ipv4.conf.v1.rp_filter is 1 (strict): ")));
  SetRpFilter("v0", "1");
  EXPECT_THAT(Lines(),
              ElementsAre(StartsWith("net.ipv4.conf.*.rp_filter is 1 (strict) on v0 and v1: ")));
  SetRpFilter("all", "1");
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("net.ipv4.conf.all.rp_filter is 1 (strict): ")));
  SetRpFilter("all", "2");
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(PreflightTest, ForwardPolicyDropAndWhatItsRemedyDoes) {
  const auto run = [&](const std::string& command) {
    ASSERT_OK(RunOk({.argv = {"sh", "-c", command}, .netns = &*netns_}).status());
  };
  run("iptables-nft -P FORWARD DROP && ip6tables-nft -P FORWARD DROP");
  // Rules that accept only some of the connections.
  run("iptables-nft -A FORWARD -p tcp -m conntrack --ctstate DNAT -j ACCEPT");
  run("iptables-nft -A FORWARD -m conntrack ! --ctstate DNAT -j ACCEPT");
  run("iptables-nft -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
  Nft("table inet fw { chain f { type filter hook forward priority 10; policy drop;\n"
      "ct status snat accept\n tcp dport 80 ct status dnat accept\n ct status dnat drop\n}; }\n");
  const std::vector<std::string> lines = Lines();
  EXPECT_THAT(lines,
              UnorderedElementsAre(StartsWith("chain FORWARD of table ip filter drops forwarded "),
                                   StartsWith("chain FORWARD of table ip6 filter drops forwarded "),
                                   StartsWith("chain f of table inet fw drops forwarded ")));
  // The warnings contain valid commands that solve the problem, so the warnings disappear.
  for (const std::string& line : lines) {
    const size_t command = line.find("; remedy: ");
    ASSERT_NE(command, std::string::npos);
    run(line.substr(command + std::strlen("; remedy: ")));
  }
  EXPECT_THAT(Lines(), IsEmpty());
  // iptables can still list its tables.
  run("iptables-nft-save | grep -q 'FORWARD -m conntrack --ctstate DNAT -j ACCEPT'");
}

// The kernel creates a legacy table when a process first requests it.
TEST_F(PreflightTest, LegacyIptables) {
  struct {
    char name[32] = "filter";
    uint32_t rest[13] = {};
    // Layout of struct ipt_getinfo. The kernel header that defines the struct cannot be compiled as
    // C++.
  } info;
  constexpr int kGetInfo = 64;
  const int error = netns_->Run([&] {
    const UniqueFd fd(socket(AF_INET, SOCK_RAW, IPPROTO_RAW));
    socklen_t size = sizeof(info);
    return getsockopt(fd.get(), IPPROTO_IP, kGetInfo, &info, &size) == 0 ? 0 : errno;
  });
  if (error == ENOPROTOOPT || error == ENOENT) {
    GTEST_SKIP() << NotApplicable("the kernel has no legacy iptables");
  }
  ASSERT_EQ(error, 0) << strerror(error);
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("table filter of iptables-legacy is in use")));
}

TEST_F(PreflightTest, NothingLacksAndNothingStays) {
  // A table with the name of the probe's table already exists.
  Nft("table ip svcmap-preflight { chain mine { }; }\n");
  const std::string listing = Listing();
  const uint32_t generation = Generation();
  absl::StatusOr<nft::Socket> listener = netns_->Run([] {
    absl::StatusOr<nft::Socket> socket = nft::Socket::Open(NETLINK_NETFILTER);
    const int group = NFNLGRP_NFTABLES;
    setsockopt(socket->fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group));
    return socket;
  });
  ASSERT_OK(listener);

  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK_AND_ASSIGN(const std::vector<nft::MissingFeature> missing_features,
                       FindMissingFeatures(OurTables()));
  RecordProperty("microseconds",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(
                                      std::chrono::steady_clock::now() - start)
                                      .count()));
  EXPECT_THAT(missing_features, IsEmpty());

  EXPECT_EQ(Listing(), listing);
  EXPECT_EQ(Generation(), generation);
  // The kernel sent no notification, because the probe changed nothing.
  EXPECT_TRUE(listener->Receive(std::chrono::milliseconds(0))->empty());
  Nft("add chain ip svcmap-preflight other\n");
  EXPECT_EQ(Generation(), generation + 1);
  EXPECT_FALSE(listener->Receive(std::chrono::milliseconds(0))->empty());
}

TEST_F(PreflightTest, WithoutNetAdmin) {
  const auto result = netns_->Run([] {
    DropNetAdmin();
    return Preflight(OurTables());
  });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(
      std::string(result.status().message()),
      "programming nf_tables requires CAP_NET_ADMIN in this network namespace; remedy: run as "
      "root or with this capability (systemd: AmbientCapabilities=CAP_NET_ADMIN; pod: "
      "securityContext.capabilities.add: [NET_ADMIN])");
}

// Without CAP_NET_ADMIN, the preflight checks report unreadable facts and read all other facts.
TEST_F(PreflightTest, FactsWithoutNetAdmin) {
  const Facts facts = netns_->Run([] {
    DropNetAdmin();
    return ReadFacts();
  });
  EXPECT_THAT(facts.unread, ElementsAre(HasSubstr("EPERM")));
  EXPECT_EQ(facts.ip_forward, 1);
}

// The test kernel supports all features, so these tests use table specifications that no kernel
// supports. The probe must name the unsupported feature.
class MissingFeatureTest : public PreflightTest {
 protected:
  nft::TableSpecs tables_ = OurTables();
  nft::TableSpec& ipv6() { return tables_[Index(Family::kIpv6)]; }
  void AddRule(std::vector<nft::Expr> exprs) {
    ipv6().rules.push_back({.chain = "services", .text = "odd", .exprs = std::move(exprs)});
  }
  std::vector<std::string> MissingFeatures() {
    const uint32_t generation = Generation();
    const absl::StatusOr<std::vector<nft::MissingFeature>> missing_features =
        FindMissingFeatures(tables_);
    EXPECT_OK(missing_features);
    EXPECT_EQ(Generation(), generation);
    EXPECT_EQ(Listing(), "");
    std::vector<std::string> lines;
    if (!missing_features.ok()) return lines;
    for (const nft::MissingFeature& missing : *missing_features) {
      EXPECT_EQ(missing.family, Family::kIpv6);
      lines.push_back(absl::StrCat(missing.feature, "|", missing.option, "|", missing.module, "|",
                                   strerrorname_np(missing.error)));
    }
    return lines;
  }
};

TEST_F(MissingFeatureTest, Expressions) {
  AddRule({nft::RandomNumber{0, 0}});  // The modulus must not be 0.
  AddRule({nft::PayloadLoad{nft::Header::kNetwork, 0, 16, 0}, nft::Dnat{Family::kIpv6, 0, 99}});
  EXPECT_THAT(MissingFeatures(),
              UnorderedElementsAre("random numbers|CONFIG_NFT_NUMGEN|nft_numgen|ERANGE",
                                   "destination translation|CONFIG_NFT_NAT|nft_nat|ERANGE"));
}

TEST_F(MissingFeatureTest, SetsAndChains) {
  for (nft::SetSpec& set : ipv6().sets) {
    // The set is invalid, because its key has 80 bytes.
    if (set.name == "endpoints") set.key.assign(5, nft::Field::kIpv6Addr);
  }
  ipv6().chains.push_back({"odd", "", {{"nat", "forward", 0}}});
  ipv6().chains.push_back({"odder", "", {{"odd", "forward", 0}}});
  EXPECT_THAT(MissingFeatures(), ElementsAre("nat chains|CONFIG_NFT_NAT|nft_chain_nat|EOPNOTSUPP",
                                             "filter chains|CONFIG_NF_TABLES_IPV6||ENOENT",
                                             "maps with concatenated keys|||EINVAL"));
}

TEST_F(MissingFeatureTest, WhatNoPieceExplains) {
  ipv6().rules.push_back({.chain = "pick-first",
                          .text = "goto nowhere",
                          .exprs = {nft::Verdict{nft::Verdict::Kind::kGoto, "nowhere"}}});
  EXPECT_THAT(MissingFeatures(), ElementsAre("add rule to pick-first: goto nowhere|||ENOENT"));
}

TEST_F(PreflightTest, ChainsAreReadWhole) {
  Nft("table ip a { chain plain { }\n"
      "chain base { type nat hook postrouting priority 110; policy accept; }; }\n"
      "table inet b { chain base { type filter hook forward priority -5; policy drop; }; }\n"
      "table netdev c { chain base { type filter hook ingress device v0 priority 7; }; }\n"
      "table arp d { chain base { type filter hook output priority 0; policy drop; }; }\n"
      "table bridge e { chain base { type filter hook forward priority 0; policy drop; }; }\n");
  ASSERT_OK_AND_ASSIGN(const std::vector<nft::ForeignChain> chains,
                       netns_->Run([] { return nft::ReadChains(); }));
  std::vector<std::string> lines;
  for (const nft::ForeignChain& chain : chains) {
    std::string line = absl::StrCat(chain.family, " ", chain.table, " ", chain.name);
    if (chain.base) {
      absl::StrAppend(&line, " ", chain.base->type, " ", chain.base->hook, " ",
                      chain.base->priority, chain.base->policy_drop ? " drop" : "");
    }
    lines.push_back(line);
  }
  EXPECT_THAT(lines, UnorderedElementsAre(
                         "ip a plain", "ip a base nat postrouting 110",
                         "inet b base filter forward -5 drop", "netdev c base filter ingress 7",
                         "arp d base filter output 0 drop", "bridge e base filter forward 0 drop"));
}

// Another process repeatedly replaces all chains in one transaction. A reader must see either all
// old chains or all new chains.
TEST_F(PreflightTest, ChainsAreReadAsOfOneGeneration) {
  constexpr int kChains = 2000;
  std::string scripts[2];
  for (const int i : {0, 1}) {
    scripts[i] = "table ip t { }\ndelete table ip t\ntable ip t {\n";
    for (int n = 0; n < kChains; ++n) {
      absl::StrAppend(&scripts[i], "chain ", i == 0 ? "a" : "b", n, " { }\n");
    }
    scripts[i] += "}\n";
  }
  Nft(scripts[0]);
  const std::jthread writer([&](const std::stop_token& stop) {
    for (int i = 1; !stop.stop_requested(); ++i) EXPECT_OK(RunNft(*netns_, scripts[i % 2]));
  });
  for (int i = 0; i < 100; ++i) {
    const auto chains = netns_->Run([] { return nft::ReadChains(); });
    ASSERT_TRUE(chains.ok()) << chains.status();
    ASSERT_EQ(chains->size(), size_t{kChains});
    for (const nft::ForeignChain& chain : *chains) {
      ASSERT_EQ(chain.name[0], chains->front().name[0]);
    }
  }
}

}  // namespace
}  // namespace svcmap::api
