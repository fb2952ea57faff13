// Tests of svcmapd with kube-proxy's configuration file, and of changes to this file.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/netns/service_world.h"
#include "tests/support/kubeadm_config.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

// Returns the configuration file of kubeadm 1.36 with `edits` applied. The configuration file sets
// no machine-wide sysctl.
std::string Config(const std::vector<std::pair<std::string, std::string>>& edits = {}) {
  std::string text = KubeadmConfig(kLastKubeadm, absl::StrCat(kClusterCidrV4, ",", kClusterCidrV6));
  text = absl::StrReplaceAll(text, {{"maxPerCore: null", "maxPerCore: 0"},
                                    {"oomScoreAdj: null", "oomScoreAdj: 0"},
                                    {"mode: \"\"", "mode: nftables"}});
  for (const auto& [from, to] : edits) {
    EXPECT_THAT(text, HasSubstr(from));
    text = absl::StrReplaceAll(text, {{from, to}});
  }
  return text;
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string ReadSysctl(const NetNs& netns, const std::string& name) {
  return netns.Run([&] {
    std::string value;
    std::ifstream("/proc/sys/net/netfilter/" + name) >> value;
    return value;
  });
}

class ConfigTest : public ServiceTest {
 protected:
  absl::StatusOr<TemporaryFolder> folder_ = TemporaryFolder::Make();
  std::string path_ = folder_->path() + "/config.conf";
};

TEST_F(ConfigTest, S300_S301_S307_S318_TheFileTakesEffect) {
  WriteText(
      path_,
      Config({{"nodePortAddresses: null", "nodePortAddresses: [198.18.7.0/24, \"fd00:78::/64\"]"},
              {"nftables:\n  masqueradeAll: false\n  masqueradeBit: null",
               "nftables:\n  masqueradeAll: true\n  masqueradeBit: 15"}}));
  // The agent's flags include --cluster-cidr, which is ignored, and --node-name, which takes
  // effect.
  ASSERT_OK(world()->RestartAgent({"--config", path_}));
  ASSERT_OK(agent().Replace(Basics() + Objects{ExternalWeb("shop/web", kWeb)} +
                            WebSlices("shop/web", {&pod_a()})));
  for (const bool v6 : {false, true}) {
    const auto ask = [&](const Host& from, const Address& address, uint16_t port) {
      return Ask(from.netns(), {.destination = address.in(v6), .port = port});
    };
    EXPECT_ANSWERED_BY(ask(client(), kNodeSecond, kNodePort), "pod-a", node().address(v6));
    EXPECT_EQ(ask(client(), kNode, kNodePort).server, "");
    EXPECT_ANSWERED_BY(ask(pod_b(), kWeb, 80), "pod-a", node().address(v6));
    const auto rules =
        RunOk({.argv = {"nft", "list", "chain", v6 ? "ip6" : "ip", "svcmap", "mark-masq"},
               .netns = &node().netns()});
    ASSERT_OK(rules);
    EXPECT_THAT(*rules, HasSubstr("0x00008000"));
  }
  EXPECT_THAT(agent().log(), HasSubstr("--cluster-cidr is ignored"));
  ASSERT_OK(world()->RestartAgent({}));  // The agent exits if its file is deleted.
}

TEST_F(ConfigTest, S108_S112_S113_KeywordsOfNodePortAddresses) {
  const struct {
    std::string setting;
    bool first;   // Whether a nodePort is accepted at the node's first address.
    bool second;  // Whether a nodePort is accepted at the node's second address.
  } cases[] = {{"localhost", false, false},
               {"localhost,all", true, true},
               {"localhost,primary", true, false},
               {"primary,198.18.7.0/24,fd00:78::/64", true, true}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.setting);
    ASSERT_OK(world()->RestartAgent({"--nodeport-addresses", c.setting}));
    ASSERT_OK(agent().Replace(Basics() + Objects{ExternalWeb("shop/web", kWeb)} +
                              WebSlices("shop/web", {&pod_a()})));
    for (const bool v6 : {false, true}) {
      const auto server_at = [&](const Address& address) {
        return Ask(client().netns(), {.destination = address.in(v6), .port = kNodePort}).server;
      };
      EXPECT_EQ(server_at(kNode), c.first ? "pod-a" : "");
      EXPECT_EQ(server_at(kNodeSecond), c.second ? "pod-a" : "");
    }
  }
}

// Runs svcmapd in a separate namespace without traffic.
class ConfigFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(netns_);
    ASSERT_OK(folder_);
  }

  std::string path(const std::string& name) const { return folder_->path() + "/" + name; }

  absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::vector<std::string> flags = {}) {
    std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmapd",
                                     "--listen",
                                     "unix://" + path("agent.sock"),
                                     "--state-dir=",
                                     "--config",
                                     path("config.conf")};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return ChildProcess::Start({.argv = std::move(argv), .netns = &*netns_});
  }

  // Mounts a file the way the kubelet mounts ConfigMaps: "config.conf" links to
  // "..data/config.conf", and "..data" links to the directory of one version.
  void Mount(const std::string& version, const std::string& text) {
    namespace fs = std::filesystem;
    fs::create_directory(path(version));
    WriteText(path(version) + "/config.conf", text);
    fs::create_symlink(version, path("..data_tmp"));
    fs::rename(path("..data_tmp"), path("..data"));
    if (!fs::exists(path("config.conf"))) {
      fs::create_symlink("..data/config.conf", path("config.conf"));
    }
  }

  static void ExpectItEndsForTheChange(ChildProcess& agent) {
    const std::optional<ExitStatus> exit = agent.Wait(kHangLimit);
    ASSERT_TRUE(exit) << agent.err();
    EXPECT_EQ(exit->code, 1) << agent.err();
    EXPECT_THAT(agent.err(), HasSubstr("configuration file changed"));
  }

  absl::StatusOr<NetNs> netns_ = NetNs::Create();
  absl::StatusOr<TemporaryFolder> folder_ = TemporaryFolder::Make();
};

TEST_F(ConfigFileTest, S320_OtherContentEndsItAndTheRulesStay) {
  const std::string verbose = Config({{"verbosity: 0", "verbosity: 4"}});
  WriteText(path("config.conf"), verbose);
  ASSERT_OK_AND_ASSIGN(const auto agent, Start());
  ASSERT_TRUE(agent->WaitForOutput("svcmapd started", kHangLimit)) << agent->err();
  // Write the same content again, then invalid content.
  WriteText(path("config.conf"), verbose);
  EXPECT_TRUE(agent->WaitForOutput("configuration file unchanged", kHangLimit)) << agent->err();
  WriteText(path("config.conf"), Config({{"oomScoreAdj: 0", "oomScoreAdj: 5000"}}));
  EXPECT_TRUE(agent->WaitForOutput(
      "oomScoreAdj: Invalid value: 5000: must be between -1000 and 1000", kHangLimit))
      << agent->err();
  WriteText(path("config.conf"), Config());
  ExpectItEndsForTheChange(*agent);
  EXPECT_OK(RunOk({.argv = {"nft", "list", "table", "ip", "svcmap"}, .netns = &*netns_}).status());
}

TEST_F(ConfigFileTest, S320_AMountedConfigMapThatChangesEndsIt) {
  const std::string verbose = Config({{"verbosity: 0", "verbosity: 4"}});
  Mount("..1", verbose);
  ASSERT_OK_AND_ASSIGN(const auto agent, Start());
  ASSERT_TRUE(agent->WaitForOutput("svcmapd started", kHangLimit)) << agent->err();
  Mount("..2", verbose);
  EXPECT_TRUE(agent->WaitForOutput("configuration file unchanged", kHangLimit)) << agent->err();
  Mount("..3", Config({{"masqueradeAll: false", "masqueradeAll: true"}}));
  ExpectItEndsForTheChange(*agent);
}

TEST_F(ConfigFileTest, S319_ABadFileEndsItBeforeItDoesAnything) {
  WriteText(path("config.conf"), Config({{"oomScoreAdj: 0", "oomScoreAdj: 5000"}}));
  ASSERT_OK_AND_ASSIGN(const auto agent, Start());
  const std::optional<ExitStatus> exit = agent->Wait(kHangLimit);
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 2);
  EXPECT_THAT(agent->err(), HasSubstr("config.conf: oomScoreAdj: Invalid value: 5000"));
  ASSERT_OK_AND_ASSIGN(const std::string rules,
                       RunOk({.argv = {"nft", "list", "ruleset"}, .netns = &*netns_}));
  EXPECT_EQ(rules, "");
}

TEST_F(ConfigFileTest, S321_S328_InitOnlyWritesSysctlsAndProgramsNothing) {
  WriteText(path("config.conf"),
            Config({{"tcpEstablishedTimeout: null", "tcpEstablishedTimeout: 3h"},
                    {"tcpBeLiberal: false", "tcpBeLiberal: true"},
                    {"udpStreamTimeout: 0s", "udpStreamTimeout: 1m17s"}}));
  ASSERT_OK_AND_ASSIGN(const auto agent, Start({"--init-only"}));
  const std::optional<ExitStatus> exit = agent->Wait(kHangLimit);
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->ok()) << agent->err();
  EXPECT_EQ(ReadSysctl(*netns_, "nf_conntrack_tcp_timeout_established"), "10800");
  // 3600 is the kernel's default value.
  EXPECT_EQ(ReadSysctl(*netns_, "nf_conntrack_tcp_timeout_close_wait"), "3600");
  EXPECT_EQ(ReadSysctl(*netns_, "nf_conntrack_udp_timeout_stream"), "77");
  EXPECT_EQ(ReadSysctl(*netns_, "nf_conntrack_tcp_be_liberal"), "1");
  ASSERT_OK_AND_ASSIGN(const std::string rules,
                       RunOk({.argv = {"nft", "list", "ruleset"}, .netns = &*netns_}));
  EXPECT_EQ(rules, "");
}

// The configuration file sets a machine-wide sysctl, which processes in a network namespace can
// read but not write.
TEST_F(ConfigFileTest, S327_WhatMayNotBeWrittenIsAWarningWithTheWantedValue) {
  const int now = std::stoi("0" + ReadSysctl(*netns_, "nf_conntrack_max"));
  const int wanted = now == 1000000 ? 1000001 : 1000000;
  WriteText(path("config.conf"), Config({{"maxPerCore: 0", "maxPerCore: 1"},
                                         {"  min: null", absl::StrCat("  min: ", wanted)}}));
  ASSERT_OK_AND_ASSIGN(const auto agent, Start());
  EXPECT_TRUE(agent->WaitForOutput("svcmapd started", kHangLimit)) << agent->err();
  EXPECT_THAT(agent->err(),
              HasSubstr(absl::StrCat("set net.netfilter.nf_conntrack_max to ", wanted)));
  EXPECT_EQ(ReadSysctl(*netns_, "nf_conntrack_max"), absl::StrCat(now));
}

TEST_F(ConfigFileTest, S328_AValueThatTheKernelRejectsEndsIt) {
  WriteText(path("config.conf"),
            Config({{"tcpEstablishedTimeout: null", "tcpEstablishedTimeout: 2000000h"}}));
  ASSERT_OK_AND_ASSIGN(const auto agent, Start());
  const std::optional<ExitStatus> exit = agent->Wait(kHangLimit);
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 1);
  EXPECT_THAT(agent->err(), HasSubstr("nf_conntrack_tcp_timeout_established"));
}

}  // namespace
}  // namespace svcmap::testing
