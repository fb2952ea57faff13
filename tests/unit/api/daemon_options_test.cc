#include "api/daemon/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "api/config/detect_local.h"
#include "tests/support/file.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::api {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Parsed<DaemonOptions> TryParse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "svcmapd");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return ParseDaemonOptions(static_cast<int>(pointers.size()), pointers.data());
}

DaemonOptions Parse(const std::vector<std::string>& arguments) {
  const Parsed<DaemonOptions> parsed = TryParse(arguments);
  EXPECT_FALSE(parsed.exit.has_value());
  return parsed.options;
}

std::optional<int> ExitOf(const std::vector<std::string>& arguments) {
  return TryParse(arguments).exit;
}

TEST(DaemonOptionsTest, S29_TheNameOfThisNodeIsTrimmedAndLowerCase) {
  EXPECT_EQ(Parse({"--node-name", " Node-1.Example\t"}).node_name, "node-1.example");
}

TEST(DaemonOptionsTest, S29_TheNameOfThisNodeIsTheHostNameUnlessItIsGiven) {
  const std::string name = Parse({}).node_name;
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(Parse({"--node-name", name}).node_name, name);
}

TEST(DaemonOptionsTest, WhoMayCallIsRepeatable) {
  const ListenOptions listeners = Parse({"--listen",          "tcp://0.0.0.0:7070",
                                         "--listen",          "unix:///s",
                                         "--tls-cert",        "c",
                                         "--tls-key",         "k",
                                         "--tls-client-ca",   "a",
                                         "--allow-write",     "spiffe://t/w",
                                         "--allow-write",     "w.test",
                                         "--allow-read",      "r.test",
                                         "--allow-write-uid", "5",
                                         "--allow-read-uid",  "6",
                                         "--allow-read-uid",  "7"})
                                      .listeners;
  EXPECT_EQ(listeners.listen, (std::vector<std::string>{"tcp://0.0.0.0:7070", "unix:///s"}));
  EXPECT_EQ(listeners.tls.certificate + listeners.tls.key + listeners.tls.ca, "cka");
  EXPECT_EQ(listeners.allow.write_names, (std::vector<std::string>{"spiffe://t/w", "w.test"}));
  EXPECT_EQ(listeners.allow.read_names, std::vector<std::string>{"r.test"});
  EXPECT_EQ(listeners.allow.write_uids, std::vector<uid_t>{5});
  EXPECT_EQ(listeners.allow.read_uids, (std::vector<uid_t>{6, 7}));
}

TEST(DaemonOptionsTest, S64_S69_OneClusterCidrOfEachFamily) {
  const auto options = ParseDetectLocal({.cluster_cidr = "10.244.0.0/16,fd00:10:244::/48"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->detect_local, proxy::DetectLocal::kClusterCidr);
  EXPECT_EQ(options->cluster_cidr[0]->ToString(), "10.244.0.0/16");
  EXPECT_EQ(options->cluster_cidr[1]->ToString(), "fd00:10:244::/48");
  EXPECT_EQ(ParseDetectLocal({.cluster_cidr = "10.244.0.0/16,10.245.0.0/16"}).status().message(),
            "--cluster-cidr: Invalid value: \"10.245.0.0/16\": must have at most one CIDR per IP "
            "family; this is the second IPv4 CIDR");
  EXPECT_FALSE(ParseDetectLocal({.cluster_cidr = "10.244.0.0/16,"}).ok());
  EXPECT_EQ(ParseDetectLocal({.cluster_cidr = "pods"}).status().message(),
            "--cluster-cidr: Invalid value: \"pods\": must be a CIDR, such as \"10.244.0.0/16\"");
}

TEST(DaemonOptionsTest, S68_WithoutAClusterCidrPodsAreNotDistinguished) {
  const auto options = ParseDetectLocal({});
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->cluster_cidr[0] || options->cluster_cidr[1]);
}

TEST(DaemonOptionsTest, S65_S66_S67_OtherModesReadTheirOwnFlag) {
  EXPECT_EQ(ParseDetectLocal({.mode = "NodeCIDR", .cluster_cidr = "unread"})->detect_local,
            proxy::DetectLocal::kNodeCidr);
  const auto bridge = ParseDetectLocal({.mode = "BridgeInterface", .bridge_interface = "cni0"});
  ASSERT_TRUE(bridge.ok());
  EXPECT_EQ(bridge->detect_local, proxy::DetectLocal::kInterface);
  EXPECT_EQ(bridge->interface, "cni0");
  EXPECT_EQ(
      ParseDetectLocal({.mode = "InterfaceNamePrefix", .interface_name_prefix = "veth"})->interface,
      "veth*");
}

TEST(DaemonOptionsTest, WhatIsNoInterfaceNameIsNamed) {
  EXPECT_EQ(ParseDetectLocal({.mode = "BridgeInterface"}).status().message(),
            "--pod-bridge-interface: Required value: must be set in detect-local mode "
            "\"BridgeInterface\"");
  for (const std::string name : {"a/b", "a b", "veth*", "q\"", "sixteen-letters-"}) {
    EXPECT_EQ(ParseDetectLocal({.mode = "InterfaceNamePrefix", .interface_name_prefix = name})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(DaemonOptionsTest, S6_S90_S113_S258_S297_EachSwitchNeedsItsFlag) {
  const std::pair<const char*, bool (*)(const DaemonOptions&)> switches[] = {
      {"--masquerade-all", [](const DaemonOptions& o) { return o.ruleset.masquerade_all; }},
      {"--answer-ping", [](const DaemonOptions& o) { return o.ruleset.answer_ping; }},
      {"--port-ranges", [](const DaemonOptions& o) { return o.ruleset.port_ranges; }},
      {"--service-counters", [](const DaemonOptions& o) { return o.ruleset.count_connections; }},
      {"--bind-address-hard-fail", [](const DaemonOptions& o) { return o.bind_address_hard_fail; }},
      {"--reset-stale-tcp", [](const DaemonOptions& o) { return o.reset_stale_tcp; }},
      {"--no-localhost-nodeports", [](const DaemonOptions& o) { return !o.localhost_node_ports; }},
      {"--no-external-ips", [](const DaemonOptions& o) { return !o.external_ips; }},
  };
  for (const auto& [flag, is_on] : switches) {
    EXPECT_FALSE(is_on(Parse({"--nodeport-addresses", "localhost"}))) << flag;
    EXPECT_TRUE(is_on(Parse({flag}))) << flag;
  }
}

TEST(DaemonOptionsTest, LimitsOfWhatControllersMayCost) {
  const auto limits = [](const std::vector<std::string>& arguments) {
    const DaemonOptions options = Parse(arguments);
    const auto& [state, push] = std::tie(options.state_limits, options.push_limits);
    return std::vector<uint64_t>{state.objects,
                                 state.bytes,
                                 state.elements,
                                 state.endpoints_per_service,
                                 push.max_batch_bytes,
                                 push.max_batches_in_flight,
                                 push.max_bytes_in_flight,
                                 push.max_streams,
                                 push.max_watchers,
                                 push.max_connections,
                                 push.max_connections_per_peer};
  };
  EXPECT_THAT(limits({}), ElementsAre(500'000, 512 << 20, 5'000'000, 65535, 16 << 20, 64, 64 << 20,
                                      16, 16, 64, 32));
  EXPECT_THAT(limits({"--max-objects=1", "--max-bytes=5001", "--max-elements=5002",
                      "--max-endpoints-per-service=2", "--max-batch-bytes=4096",
                      "--max-batches-in-flight=3", "--max-bytes-in-flight=5000", "--max-streams=4",
                      "--max-watchers=5", "--max-connections=6", "--max-connections-per-peer=7"}),
              ElementsAre(1, 5001, 5002, 2, 4096, 3, 5000, 4, 5, 6, 7));
}

TEST(DaemonOptionsTest, S250_S295_WhereHealthIsServed) {
  const struct {
    std::vector<std::string> arguments;
    const char* address;
  } cases[] = {
      {{}, "0.0.0.0:10256"},
      {{"--healthz-bind-address", "[::]:10256"}, "[::]:10256"},
      {{"--healthz-bind-address", "127.0.0.1"}, "127.0.0.1:10256"},
      {{"--healthz-bind-address=192.0.2.7:80"}, "192.0.2.7:80"},
  };
  for (const auto& c : cases) {
    const DaemonOptions options = Parse(c.arguments);
    ASSERT_TRUE(options.healthz_bind_address) << c.address;
    EXPECT_EQ(options.healthz_bind_address->ToString(), c.address);
  }
  EXPECT_FALSE(Parse({"--healthz-bind-address", ""}).healthz_bind_address);
  EXPECT_FALSE(Parse({"--healthz-bind-address="}).healthz_bind_address);
}

TEST(DaemonOptionsTest, S267_S296_WhereMetricsAreServed) {
  const auto served_at = [](const std::vector<std::string>& arguments) {
    const std::optional<BindAddress> at = Parse(arguments).metrics_bind_address;
    return at ? at->ToString() : "nowhere";
  };
  EXPECT_EQ(served_at({}), "127.0.0.1:10249");
  EXPECT_EQ(served_at({"--metrics-bind-address", "[::1]:10249"}), "[::1]:10249");
  EXPECT_EQ(served_at({"--metrics-bind-address=0.0.0.0"}), "0.0.0.0:10249");
  EXPECT_EQ(served_at({"--metrics-bind-address="}), "nowhere");
  EXPECT_EQ(served_at({"--metrics-bind-address", "0"}), "nowhere");
}

TEST(DaemonOptionsTest, AnEmptyFolderKeepsNoState) {
  EXPECT_EQ(Parse({"--state-dir="}).state_dir, "");
  EXPECT_EQ(Parse({"--state-dir", ""}).state_dir, "");
  EXPECT_EQ(Parse({"--state-dir=/a=", "--masquerade-all"}).state_dir, "/a=");
}

TEST(DaemonOptionsTest, S295_ABadHealthAddressIsBadUsage) {
  EXPECT_EQ(ExitOf({"--healthz-bind-address", "localhost:10256"}), 2);
}

// Tests that use a configuration file. File() writes a file with apiVersion, kind and `fields`.
class ConfigFileTest : public ::testing::Test {
 protected:
  std::string File(const std::string& fields) {
    const std::string path = folder_->path() + "/config.conf";
    std::ofstream(path) << "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                        << "kind: KubeProxyConfiguration\nmode: nftables\n"
                        << fields;
    return path;
  }
  absl::StatusOr<testing::TemporaryFolder> folder_ = testing::TemporaryFolder::Make();
};

TEST_F(ConfigFileTest, S6_S316_AFeatureGateDisablesExternalIps) {
  EXPECT_TRUE(
      Parse({"--config", File("featureGates: {AllowServiceExternalIPs: true}\n")}).external_ips);
  const DaemonOptions options =
      Parse({"--config", File("featureGates: {AllowServiceExternalIPs: false}\n")});
  EXPECT_FALSE(options.external_ips);
  EXPECT_THAT(options.config->findings, ::testing::IsEmpty());
  EXPECT_FALSE(Parse({"--no-external-ips", "--config",
                      File("featureGates: {AllowServiceExternalIPs: true}\n")})
                   .external_ips);
}

TEST_F(ConfigFileTest, S113_S316_AFeatureGateDisablesNodePortsOnLoopbackAddresses) {
  const std::string on = File("featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}\n");
  EXPECT_TRUE(Parse({"--config", on}).localhost_node_ports);
  EXPECT_FALSE(Parse({"--no-localhost-nodeports", "--config", on}).localhost_node_ports);
  const DaemonOptions options =
      Parse({"--config", File("featureGates: {KubeProxyNFTablesLocalhostNodePorts: false}\n")});
  EXPECT_FALSE(options.localhost_node_ports);
  EXPECT_THAT(options.config->findings, ::testing::IsEmpty());
}

TEST_F(ConfigFileTest, S293ToS307_TheFileSaysWhatTheFlagsSay) {
  const DaemonOptions options = Parse({"--config", File(R"(
hostnameOverride: Node-7
healthzBindAddress: 127.0.0.1:99
metricsBindAddress: 0.0.0.0
bindAddressHardFail: true
nftables: {masqueradeAll: true, masqueradeBit: 3}
clusterCIDR: 10.244.0.0/16
nodePortAddresses: [192.0.2.0/24]
logging: {verbosity: 5}
)")});
  EXPECT_EQ(options.node_name, "node-7");
  EXPECT_EQ(options.healthz_bind_address->ToString(), "127.0.0.1:99");
  EXPECT_EQ(options.metrics_bind_address->ToString(), "0.0.0.0:10249");
  EXPECT_TRUE(options.bind_address_hard_fail);
  EXPECT_TRUE(options.ruleset.masquerade_all);
  EXPECT_EQ(options.ruleset.masquerade_mark, 8u);
  EXPECT_EQ(options.ruleset.cluster_cidr[0]->ToString(), "10.244.0.0/16");
  ASSERT_EQ(options.node_port_addresses.prefixes.size(), 1u);
  EXPECT_EQ(options.node_port_addresses.prefixes[0].ToString(), "192.0.2.0/24");
  EXPECT_EQ(options.verbosity, 1);
  EXPECT_THAT(options.config->findings, IsEmpty());
}

TEST_F(ConfigFileTest, S305_TheFileNamesTheDevicesOfPods) {
  const DaemonOptions options = Parse(
      {"--config",
       File("detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}\n")});
  EXPECT_EQ(options.ruleset.detect_local, proxy::DetectLocal::kInterface);
  EXPECT_EQ(options.ruleset.interface, "veth*");
}

TEST_F(ConfigFileTest, S307_AnEmptyListIsThePrimaryAddress) {
  for (const char* text : {"", "nodePortAddresses: [primary]\n"}) {
    const proxy::NodePortAddresses addresses = Parse({"--config", File(text)}).node_port_addresses;
    EXPECT_TRUE(addresses.primary) << text;
    EXPECT_THAT(addresses.prefixes, IsEmpty()) << text;
  }
}

TEST_F(ConfigFileTest, S307_KeywordsAndCidrsCanBeCombined) {
  const DaemonOptions options =
      Parse({"--config", File("nodePortAddresses: [localhost, primary, 192.0.2.0/24, all]\n")});
  EXPECT_TRUE(options.node_port_addresses.primary);
  EXPECT_EQ(options.node_port_addresses.prefixes.size(), 5u);
  EXPECT_FALSE(Parse({"--nodeport-addresses", "localhost"}).node_port_addresses.primary);
}

TEST_F(ConfigFileTest, S318_FlagsOfTheSameMeaningAreIgnoredAndNamed) {
  const DaemonOptions options =
      Parse({"--config", File("clusterCIDR: 10.244.0.0/16\n"), "--cluster-cidr", "10.0.0.0/8",
             "--masquerade-all", "--nodeport-addresses", "192.0.2.0/24",
             "--healthz-bind-address=", "--bind-address-hard-fail", "--detect-local-mode",
             "NodeCIDR", "--pod-bridge-interface", "a", "--pod-interface-name-prefix", "b"});
  EXPECT_EQ(options.ruleset.cluster_cidr[0]->ToString(), "10.244.0.0/16");
  EXPECT_FALSE(options.ruleset.masquerade_all);
  EXPECT_FALSE(options.bind_address_hard_fail);
  EXPECT_EQ(options.healthz_bind_address->ToString(), "0.0.0.0:10256");
  EXPECT_EQ(options.config->findings.size(), 8u);
  EXPECT_THAT(options.config->findings,
              Contains("--cluster-cidr is ignored because --config is set"));
}

TEST_F(ConfigFileTest, S293_S316_S318_SomeFlagsCountBeforeTheFile) {
  const std::string file = File("hostnameOverride: of-the-file\nlogging: {verbosity: 9}\n");
  EXPECT_EQ(Parse({"--config", file}).verbosity, 2);
  for (const char* flag : {"--hostname-override", "--node-name"}) {
    const DaemonOptions options = Parse({"--config", file, flag, "of-the-flag", "-v"});
    EXPECT_EQ(options.node_name, "of-the-flag");
    EXPECT_EQ(options.verbosity, 1);
    EXPECT_THAT(options.config->findings, IsEmpty());
  }
}

TEST_F(ConfigFileTest, S318_OurOwnFlagsCountAlways) {
  const DaemonOptions options = Parse({"--config", File(""), "--state-dir", "/s", "--listen",
                                       "unix:///l", "--init-only", "--no-external-ips"});
  EXPECT_EQ(options.state_dir, "/s");
  EXPECT_EQ(options.listeners.listen, std::vector<std::string>{"unix:///l"});
  EXPECT_TRUE(options.init_only);
  EXPECT_FALSE(options.external_ips);
  EXPECT_THAT(options.config->findings, IsEmpty());
}

TEST_F(ConfigFileTest, S293_ABlankNameIsBadUsage) {
  EXPECT_EQ(ExitOf({"--node-name", " "}), 2);
  EXPECT_EQ(ExitOf({"--config", File("hostnameOverride: \" \"\n")}), 2);
}

TEST_F(ConfigFileTest, S319_WhatCannotBeUsedIsReportedAtOnceAndLineByLine) {
  const std::string file = File("oomScoreAdj: 5000\nconntrack: {min: -1}\n");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ExitOf({"--config", file}), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "svcmapd: " + file +
                ": oomScoreAdj: Invalid value: 5000: must be between -1000 and 1000, inclusive\n" +
                "svcmapd: " + file +
                ": conntrack.min: Invalid value: -1: must be greater than or equal to 0\n");
  EXPECT_EQ(ExitOf({"--config", "/nowhere/config.conf"}), 2);
  EXPECT_EQ(ExitOf({"--config", folder_->path()}), 2);
}

TEST_F(ConfigFileTest, S321_TheDefaultsAreWrittenToAFile) {
  const std::string path = folder_->path() + "/defaults.yaml";
  EXPECT_EQ(ExitOf({"--write-config-to", path}), 0);
  EXPECT_EQ(Parse({"--config", path}).healthz_bind_address->ToString(), "0.0.0.0:10256");
  EXPECT_EQ(ExitOf({"--write-config-to", "/nowhere/defaults.yaml"}), 1);
}

TEST(DaemonOptionsTest, S318_PositionalArgumentsAreBadUsage) {
  EXPECT_EQ(ExitOf({"config.conf"}), 2);
}

// docs/configuration.md must contain every flag.
TEST(DaemonOptionsTest, TheDocumentationHasEveryFlag) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(ExitOf({"--help"}), 0);
  const std::string help = ::testing::internal::GetCapturedStdout();
  const std::string docs = svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/configuration.md");
  int flags = 0;
  for (size_t at = help.find("\n  -"); at != std::string::npos; at = help.find("\n  -", at + 1)) {
    const std::string flag = help.substr(at + 3, help.find_first_of(" ,={", at + 4) - at - 3);
    EXPECT_THAT(docs, AnyOf(HasSubstr("`" + flag), HasSubstr(", " + flag)));
    ++flags;
  }
  EXPECT_GT(flags, 20);
}

TEST(DaemonOptionsTest, TheKernelsVersionDecidesWhetherLookupsAreRepeated) {
  EXPECT_EQ(Parse({}).repeat_lookups, std::nullopt);
  EXPECT_EQ(Parse({"--repeat-lookups", "auto"}).repeat_lookups, std::nullopt);
  EXPECT_EQ(Parse({"--repeat-lookups", "on"}).repeat_lookups, true);
  EXPECT_EQ(Parse({"--repeat-lookups", "off"}).repeat_lookups, false);
  EXPECT_NE(TryParse({"--repeat-lookups", "yes"}).exit.value_or(0), 0);
  for (const char* release : {"5.10.0-36-cloud-amd64", "6.1.192", "6.11.11", "6.12.47", "6.12",
                              "6.12.0-55.el10.x86_64", "6.13.0", "6.16.12+deb13-amd64", "", "x"}) {
    EXPECT_TRUE(CanMissReplacedKeys(release)) << release;
  }
  for (const char* release : {"6.12.48", "6.12.118+deb13-cloud-amd64", "6.17-rc1",
                              "6.17.0-5-generic", "6.18.44", "7.0.0", "10.1"}) {
    EXPECT_FALSE(CanMissReplacedKeys(release)) << release;
  }
}

}  // namespace
}  // namespace svcmap::api
