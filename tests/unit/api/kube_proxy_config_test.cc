#include "api/config/kube_proxy_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "api/config/go_duration.h"
#include "tests/support/file.h"
#include "tests/support/kubeadm_config.h"

namespace svcmap::api {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kConfigHead[] =
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

// Parses a configuration file with `mode: nftables` and the given fields.
ReadConfiguration ReadFields(const std::string& fields) {
  return ReadKubeProxyConfiguration(absl::StrCat(kConfigHead, "mode: nftables\n", fields));
}

KubeProxyConfiguration GoodFields(const std::string& fields) {
  const ReadConfiguration read = ReadFields(fields);
  EXPECT_THAT(read.errors, IsEmpty()) << fields;
  EXPECT_THAT(read.findings, IsEmpty()) << fields;
  return read.config;
}

std::string OneError(const std::string& fields) {
  const ReadConfiguration read = ReadFields(fields);
  EXPECT_THAT(read.errors, SizeIs(1)) << fields;
  return read.errors.empty() ? "" : read.errors[0];
}

std::string OneFinding(const std::string& fields) {
  const ReadConfiguration read = ReadFields(fields);
  EXPECT_THAT(read.errors, IsEmpty()) << fields;
  EXPECT_THAT(read.findings, SizeIs(1)) << fields;
  return read.findings.empty() ? "" : read.findings[0];
}

TEST(KubeProxyConfigTest, S302_S303_S315_ZeroIsTheDefaultWhereItMeansNothing) {
  const KubeProxyConfiguration c =
      GoodFields("nftables: {syncPeriod: 0s, minSyncPeriod: 0s}\nconfigSyncPeriod: \"0\"\n");
  EXPECT_EQ(c.nftables.sync_period, seconds(30));
  EXPECT_EQ(c.nftables.min_sync_period, seconds(1));
  EXPECT_EQ(c.config_sync_period, minutes(15));
}

TEST(KubeProxyConfigTest, S309_S311_S312_ZeroIsKeptWhereItMeansLeaveAlone) {
  const KubeProxyConfiguration c = GoodFields(
      "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n");
  EXPECT_EQ(c.conntrack.max_per_core, 0);
  EXPECT_EQ(c.conntrack.min, 0);
  EXPECT_EQ(c.conntrack.tcp_established_timeout, seconds(0));
  EXPECT_EQ(c.conntrack.tcp_close_wait_timeout, seconds(0));
}

TEST(KubeProxyConfigTest, S295_S296_ListenersFollowTheFamilyOfTheBindAddress) {
  KubeProxyConfiguration c = GoodFields("bindAddress: '::'\n");
  EXPECT_EQ(c.healthz_bind_address, "[::]:10256");
  EXPECT_EQ(c.metrics_bind_address, "[::1]:10249");
  c = GoodFields("healthzBindAddress: 192.0.2.1\nmetricsBindAddress: 2001:db8::1\n");
  EXPECT_EQ(c.healthz_bind_address, "192.0.2.1:10256");
  EXPECT_EQ(c.metrics_bind_address, "[2001:db8::1]:10249");
  EXPECT_EQ(GoodFields("healthzBindAddress: '[::1]:99'\n").healthz_bind_address, "[::1]:99");
}

TEST(KubeProxyConfigTest, EverythingThatCountsIsRead) {
  const KubeProxyConfiguration c = GoodFields(R"(
hostnameOverride: node-7
bindAddressHardFail: true
nftables: {masqueradeBit: 15, masqueradeAll: true, syncPeriod: 1m30s}
detectLocalMode: BridgeInterface
detectLocal: {bridgeInterface: cni0, interfaceNamePrefix: veth}
clusterCIDR: 10.244.0.0/16,fd00:10:244::/48
nodePortAddresses: [192.0.2.0/24, "2001:db8::/64"]
oomScoreAdj: -500
conntrack: {maxPerCore: 1, min: 2, tcpEstablishedTimeout: 3h, tcpCloseWaitTimeout: 4m,
            tcpBeLiberal: true, udpTimeout: 5s, udpStreamTimeout: 1h15m0s}
logging: {verbosity: 4}
)");
  EXPECT_EQ(c.hostname_override, "node-7");
  EXPECT_TRUE(c.bind_address_hard_fail);
  EXPECT_EQ(c.nftables.masquerade_bit, 15);
  EXPECT_TRUE(c.nftables.masquerade_all);
  EXPECT_EQ(c.nftables.sync_period, seconds(90));
  EXPECT_EQ(c.detect_local_mode, "BridgeInterface");
  EXPECT_EQ(c.detect_local.bridge_interface, "cni0");
  EXPECT_EQ(c.detect_local.interface_name_prefix, "veth");
  EXPECT_EQ(c.cluster_cidr, "10.244.0.0/16,fd00:10:244::/48");
  EXPECT_THAT(c.node_port_addresses, ElementsAre("192.0.2.0/24", "2001:db8::/64"));
  EXPECT_EQ(c.oom_score_adj, -500);
  EXPECT_EQ(c.conntrack.max_per_core, 1);
  EXPECT_EQ(c.conntrack.min, 2);
  EXPECT_EQ(c.conntrack.tcp_established_timeout, hours(3));
  EXPECT_EQ(c.conntrack.tcp_close_wait_timeout, minutes(4));
  EXPECT_TRUE(c.conntrack.tcp_be_liberal);
  EXPECT_EQ(c.conntrack.udp_timeout, seconds(5));
  EXPECT_EQ(c.conntrack.udp_stream_timeout, minutes(75));
  EXPECT_EQ(c.logging.verbosity, 4);
}

TEST(KubeProxyConfigTest, S319_JsonIsReadAsWell) {
  const ReadConfiguration read = ReadKubeProxyConfiguration(
      R"({"kind": "KubeProxyConfiguration", "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
          "mode": "nftables", "nftables": {"masqueradeAll": true}, "oomScoreAdj": null})");
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_THAT(read.findings, IsEmpty());
  EXPECT_TRUE(read.config.nftables.masquerade_all);
  EXPECT_EQ(read.config.oom_score_adj, -999);
}

struct BadField {
  const char* name;  // Name of the test case, which contains the number of the requirement.
  const char* fields;
  const char* error;
};

class BadFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadFieldTest, IsNamedWithItsValueAndWhatIsAllowed) {
  EXPECT_EQ(OneError(GetParam().fields), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Field, BadFieldTest,
    ::testing::Values(
        BadField{"S292_Burst", "clientConnection: {burst: -1}",
                 "clientConnection.burst: Invalid value: -1: must be greater than or equal to 0"},
        BadField{"S294_BindAddress", "bindAddress: node",
                 "bindAddress: Invalid value: \"node\": must be an IP address"},
        BadField{"S295_Port", "healthzBindAddress: 0.0.0.0:0",
                 "healthzBindAddress: Invalid value: \"0.0.0.0:0\": must be an IP address with a "
                 "port, such as \"0.0.0.0:10256\""},
        BadField{"S295_Address", "healthzBindAddress: localhost:10256",
                 "healthzBindAddress: Invalid value: \"localhost:10256\": must be an IP address "
                 "with a port, such as \"0.0.0.0:10256\""},
        BadField{"S296_Port", "metricsBindAddress: 127.0.0.1:65536",
                 "metricsBindAddress: Invalid value: \"127.0.0.1:65536\": must be an IP address "
                 "with a port, such as \"0.0.0.0:10256\""},
        BadField{"S297_NoBool", "bindAddressHardFail: \"true\"",
                 "bindAddressHardFail (line 4): Invalid value: \"true\": must be true or false"},
        BadField{"S299_Version", "showHiddenMetricsForVersion: v1.35",
                 "showHiddenMetricsForVersion: Invalid value: \"v1.35\": must be a minor version, "
                 "such as \"1.35\""},
        BadField{"S300_Bit", "nftables: {masqueradeBit: 32}",
                 "nftables.masqueradeBit: Invalid value: 32: must be between 0 and 31, inclusive"},
        BadField{
            "S300_NoNumber", "nftables: {masqueradeBit: high}",
            "nftables.masqueradeBit (line 4): Invalid value: \"high\": must be a 32-bit integer"},
        BadField{"S302_SyncPeriod", "nftables: {syncPeriod: -1s, minSyncPeriod: 0s}",
                 "nftables.syncPeriod: Invalid value: -1s: must be greater than 0s"},
        BadField{"S303_TooLong", "nftables: {syncPeriod: 10s, minSyncPeriod: 1m}",
                 "nftables.minSyncPeriod: Invalid value: 1m0s: must be less than or equal to "
                 "nftables.syncPeriod (10s)"},
        BadField{
            "S303_Negative", "nftables: {minSyncPeriod: -5ms}",
            "nftables.minSyncPeriod: Invalid value: -5ms: must be greater than or equal to 0s"},
        BadField{"S304_Mode", "detectLocalMode: Guess",
                 "detectLocalMode: Unsupported value: \"Guess\": supported values: "
                 "\"ClusterCIDR\", \"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\""},
        BadField{"S305_NoBridge", "detectLocalMode: BridgeInterface",
                 "detectLocal.bridgeInterface: Required value: must be set in detect-local mode "
                 "\"BridgeInterface\""},
        BadField{
            "S305_NoPrefix", "detectLocalMode: InterfaceNamePrefix",
            "detectLocal.interfaceNamePrefix: Required value: must be set in detect-local mode "
            "\"InterfaceNamePrefix\""},
        BadField{"S306_NoBlock", "clusterCIDR: pods",
                 "clusterCIDR: Invalid value: \"pods\": must be a CIDR, such as \"10.244.0.0/16\""},
        BadField{"S306_TwoOfOneFamily", "clusterCIDR: 10.0.0.0/16,10.1.0.0/16",
                 "clusterCIDR: Invalid value: \"10.1.0.0/16\": must have at most one CIDR per IP "
                 "family; this is the second IPv4 CIDR"},
        BadField{"S307_Keyword", "nodePortAddresses: [primary, Localhost]",
                 "nodePortAddresses: Invalid value: \"Localhost\": must be \"primary\", "
                 "\"localhost\", \"all\" or a CIDR, such as \"192.0.2.0/24\""},
        BadField{"S307_NoBlock", "nodePortAddresses: [all, 10.0.0.1]",
                 "nodePortAddresses: Invalid value: \"10.0.0.1\": must be \"primary\", "
                 "\"localhost\", \"all\" or a CIDR, such as \"192.0.2.0/24\""},
        BadField{"S307_Joined", "nodePortAddresses: [\"primary,localhost\"]",
                 "nodePortAddresses: Invalid value: \"primary,localhost\": must be \"primary\", "
                 "\"localhost\", \"all\" or a CIDR, such as \"192.0.2.0/24\""},
        BadField{
            "S307_NoList", "nodePortAddresses: primary",
            "nodePortAddresses (line 4): Invalid value: \"primary\": must be a list of strings"},
        BadField{"S308_Low", "oomScoreAdj: -1001",
                 "oomScoreAdj: Invalid value: -1001: must be between -1000 and 1000, inclusive"},
        BadField{"S308_High", "oomScoreAdj: 1001",
                 "oomScoreAdj: Invalid value: 1001: must be between -1000 and 1000, inclusive"},
        BadField{"S309_MaxPerCore", "conntrack: {maxPerCore: -1}",
                 "conntrack.maxPerCore: Invalid value: -1: must be greater than or equal to 0"},
        BadField{
            "S309_TooLarge", "conntrack: {maxPerCore: 2147483648}",
            "conntrack.maxPerCore (line 4): Invalid value: 2147483648: must be a 32-bit integer"},
        BadField{"S310_Min", "conntrack: {min: -1}",
                 "conntrack.min: Invalid value: -1: must be greater than or equal to 0"},
        BadField{"S311_Negative", "conntrack: {tcpEstablishedTimeout: -1h}",
                 "conntrack.tcpEstablishedTimeout: Invalid value: -1h0m0s: must be greater than or "
                 "equal to 0s"},
        BadField{"S312_Negative", "conntrack: {tcpCloseWaitTimeout: -1s}",
                 "conntrack.tcpCloseWaitTimeout: Invalid value: -1s: must be greater than or equal "
                 "to 0s"},
        BadField{"S314_Negative", "conntrack: {udpTimeout: -1s}",
                 "conntrack.udpTimeout: Invalid value: -1s: must be greater than or equal to 0s"},
        BadField{"S314_NoDuration", "conntrack: {udpStreamTimeout: 30}",
                 "conntrack.udpStreamTimeout (line 4): Invalid value: 30: must be a duration, such "
                 "as \"30s\" or \"1h15m0s\""},
        BadField{"S315_Negative", "configSyncPeriod: -1s",
                 "configSyncPeriod: Invalid value: -1s: must be greater than 0s"},
        BadField{"S316_Gates", "featureGates: {AllAlpha: maybe}",
                 "featureGates (line 4): Invalid value: a map: must be a map of names to true or "
                 "false, but the value of AllAlpha is \"maybe\""},
        BadField{
            "S316_Format", "logging: {format: xml}",
            "logging.format: Unsupported value: \"xml\": supported values: \"text\", \"json\""},
        BadField{"S317_IptablesBit", "iptables: {masqueradeBit: -1}",
                 "iptables.masqueradeBit: Invalid value: -1: must be between 0 and 31, inclusive"},
        BadField{"S293_BlankName", "hostnameOverride: ' '",
                 "hostnameOverride: Invalid value: \" \": must not be blank"},
        BadField{"S319_NoSection", "conntrack: none",
                 "conntrack (line 4): Invalid value: \"none\": must be a map of fields"}),
    [](const auto& info) { return info.param.name; });

TEST(KubeProxyConfigTest, S289_ModesOfOtherSystemsAreErrors) {
  EXPECT_THAT(ReadKubeProxyConfiguration(absl::StrCat(kConfigHead, "mode: kernelspace\n")).errors,
              ElementsAre("mode: Unsupported value: \"kernelspace\": supported values: \"\", "
                          "\"iptables\", \"ipvs\", \"nftables\""));
}

TEST(KubeProxyConfigTest, S319_AllErrorsAtOnce) {
  const ReadConfiguration read = ReadFields(
      "oomScoreAdj: 5000\nconntrack: {min: many, maxPerCore: -1}\nhealthzBindAddress: nowhere\n");
  EXPECT_THAT(read.errors, ElementsAre(HasSubstr("conntrack.min (line 5): Invalid value: \"many\""),
                                       HasSubstr("healthzBindAddress: Invalid value: \"nowhere\""),
                                       HasSubstr("oomScoreAdj: Invalid value: 5000"),
                                       HasSubstr("conntrack.maxPerCore: Invalid value: -1")));
}

TEST(KubeProxyConfigTest, S319_ANameWithADotIsNotTheFieldOfThatPath) {
  const ReadConfiguration read =
      ReadKubeProxyConfiguration(absl::StrCat(kConfigHead, "conntrack.min: 1\n"));
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_NE(read.config.conntrack.min, 1);
  EXPECT_THAT(read.findings, Contains(HasSubstr("conntrack.min (line 3): unknown field")));
}

TEST(KubeProxyConfigTest, S319_UnknownFieldsAreFindings) {
  EXPECT_EQ(OneFinding("conntrack:\n  max: 5\n"),
            "conntrack.max (line 5): unknown field of KubeProxyConfiguration, ignored");
  EXPECT_EQ(OneFinding("udpIdleTimeout: 250ms\n"),
            "udpIdleTimeout (line 4): unknown field of KubeProxyConfiguration, ignored");
  EXPECT_EQ(OneFinding("MODE: ipvs\n"),
            "MODE (line 4): unknown field of KubeProxyConfiguration, ignored");
}

TEST(KubeProxyConfigTest, S319_OfRepeatedFieldsTheLastCounts) {
  const ReadConfiguration read = ReadFields(
      "oomScoreAdj: bad\nconntrack: {min: 1}\noomScoreAdj: 5\nconntrack: {maxPerCore: 2, "
      "maxPerCore: 3}\n");
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_THAT(
      read.findings,
      ElementsAre("oomScoreAdj (line 6): duplicate field, the last value is used",
                  "conntrack (line 7): duplicate field, the last value is used",
                  "conntrack.maxPerCore (line 7): duplicate field, the last value is used"));
  EXPECT_EQ(read.config.oom_score_adj, 5);
  EXPECT_EQ(read.config.conntrack.max_per_core, 3);
  EXPECT_EQ(read.config.conntrack.min, 131072);
}

TEST(KubeProxyConfigTest, S319_OtherKindsAreErrors) {
  EXPECT_THAT(
      ReadKubeProxyConfiguration("kind: KubeletConfiguration\n").errors,
      ElementsAre("apiVersion: Required value: must be \"kubeproxy.config.k8s.io/v1alpha1\"",
                  "kind (line 1): Invalid value: \"KubeletConfiguration\": must be "
                  "\"KubeProxyConfiguration\""));
  EXPECT_THAT(ReadKubeProxyConfiguration("").errors,
              ElementsAre("the file is empty: must contain a KubeProxyConfiguration"));
  EXPECT_THAT(ReadKubeProxyConfiguration("# nothing\n").errors,
              ElementsAre("the file is empty: must contain a KubeProxyConfiguration"));
  EXPECT_THAT(ReadKubeProxyConfiguration("- a\n").errors,
              ElementsAre("the file (line 1): Invalid value: a list: must be a map of fields"));
  EXPECT_THAT(ReadKubeProxyConfiguration("a: [\n").errors, ElementsAre(HasSubstr("invalid YAML")));
  EXPECT_THAT(ReadKubeProxyConfiguration("{\"a\"").errors, ElementsAre(HasSubstr("invalid JSON")));
}

TEST(KubeProxyConfigTest, OnlyTheFirstDocumentIsRead) {
  const ReadConfiguration read = ReadKubeProxyConfiguration(
      absl::StrCat("# made by hand\n---\n", kConfigHead, "mode: nftables\n---\nkind: Other\n"));
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_THAT(read.findings,
              ElementsAre("the file has several YAML documents, only the first document is used"));
}

TEST(KubeProxyConfigTest, S289_S317_WhatHasNoEffectIsFoundWhereItIsNotTheDefault) {
  EXPECT_EQ(OneFinding("ipvs: {strictARP: true, syncPeriod: 30s}\n"),
            "ipvs.strictARP: value true has no effect");
  EXPECT_EQ(OneFinding("iptables: {masqueradeAll: true, masqueradeBit: 14}\n"),
            "iptables.masqueradeAll: value true has no effect: set nftables.masqueradeAll instead");
  EXPECT_EQ(OneFinding("winkernel: {networkName: n, enableDSR: false}\n"),
            "winkernel.networkName: value \"n\" has no effect");
  EXPECT_EQ(OneFinding("featureGates: {AllAlpha: true}\n"),
            "featureGates: value {AllAlpha: true} has no effect");
  EXPECT_EQ(OneFinding("featureGates: {AllAlpha: true, AllowServiceExternalIPs: false}\n"),
            "featureGates: value {AllAlpha: true} has no effect");
  EXPECT_EQ(OneFinding("bindAddress: 192.0.2.7\n"),
            "bindAddress: value \"192.0.2.7\" has no effect: svcmapd uses the addresses of the "
            "Node object");
  EXPECT_EQ(
      OneFinding("nftables: {minSyncPeriod: 10s}\n"),
      "nftables.minSyncPeriod: value 10s has no effect: svcmapd programs changes immediately");
  for (const char* mode : {"iptables", "ipvs"}) {
    const ReadConfiguration read = ReadKubeProxyConfiguration(
        absl::StrCat(kConfigHead, "nodePortAddresses: [primary]\nmode: ", mode, "\n"));
    EXPECT_THAT(read.errors, IsEmpty());
    EXPECT_THAT(read.findings,
                ElementsAre(absl::StrCat(
                    "mode: value \"", mode,
                    "\" has no effect: svcmapd always behaves like kube-proxy in mode nftables")));
  }
}

TEST(KubeProxyConfigTest, S325_UnsetNodePortAddressesAreNamedWhereTheModeMakesADifference) {
  EXPECT_THAT(ReadKubeProxyConfiguration(kConfigHead).findings,
              ElementsAre(HasSubstr("nodePortAddresses: not set")));
}

TEST(KubeProxyConfigTest, ManyLinesAreCounted) {
  std::string fields;
  for (int i = 0; i < 150; ++i) absl::StrAppend(&fields, "x", i, ": 1\n");
  const ReadConfiguration read = ReadFields(fields);
  ASSERT_THAT(read.findings, SizeIs(kMaxConfigurationLines));
  EXPECT_EQ(read.findings.back(), "and 51 more");
}

TEST(KubeProxyConfigTest, S321_TheDefaultsCanBeWrittenAndAreTheDefaults) {
  const std::string text = WriteDefaultConfiguration();
  EXPECT_THAT(text, HasSubstr("\nconntrack:\n  maxPerCore: 32768\n  min: 131072\n"));
  EXPECT_THAT(text, HasSubstr("\n  options:\n    text:\n      splitStream: false\n"));
  const ReadConfiguration read = ReadKubeProxyConfiguration(text);
  EXPECT_THAT(read.errors, IsEmpty()) << text;
  EXPECT_EQ(read.findings, ReadKubeProxyConfiguration(kConfigHead).findings) << text;
}

class KubeadmConfigTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kubeadm, KubeadmConfigTest,
                         ::testing::Range(testing::kFirstKubeadm, testing::kLastKubeadm + 1),
                         [](const auto& info) { return absl::StrCat("S319_v1_", info.param); });

TEST_P(KubeadmConfigTest, IsAcceptedAsItIs) {
  const ReadConfiguration read = ReadKubeProxyConfiguration(testing::KubeadmConfig(GetParam()));
  EXPECT_THAT(read.errors, IsEmpty());
  // kubeadm leaves the mode empty. kube-proxy interprets an empty mode as iptables.
  EXPECT_THAT(read.findings, ElementsAre(HasSubstr("nodePortAddresses: not set")));
  EXPECT_EQ(read.config.cluster_cidr, "10.244.0.0/16");
  EXPECT_EQ(read.config.conntrack.max_per_core, 32768);
}

TEST(GoDurationTest, S319_ReadsWhatGoReads) {
  EXPECT_EQ(ParseGoDuration("30s"), seconds(30));
  EXPECT_EQ(ParseGoDuration("1h15m0s"), minutes(75));
  EXPECT_EQ(ParseGoDuration("1.5h"), minutes(90));
  EXPECT_EQ(ParseGoDuration(".5s"), milliseconds(500));
  EXPECT_EQ(ParseGoDuration("-250ms"), -milliseconds(250));
  EXPECT_EQ(ParseGoDuration("0"), seconds(0));
  EXPECT_EQ(ParseGoDuration("1\u00b5s"), std::chrono::microseconds(1));
  EXPECT_EQ(ParseGoDuration("2\u03bcs3ns"), std::chrono::nanoseconds(2003));
  for (const char* bad : {"", "1", "s", "1d", "1 s", " 1s", "inf", "1h-5m", "9999999h", "0x1s"}) {
    EXPECT_EQ(ParseGoDuration(bad), std::nullopt) << bad;
  }
}

TEST(GoDurationTest, WritesWhatGoWrites) {
  EXPECT_EQ(FormatGoDuration(minutes(75)), "1h15m0s");
  EXPECT_EQ(FormatGoDuration(hours(24)), "24h0m0s");
  EXPECT_EQ(FormatGoDuration(milliseconds(60500)), "1m0.5s");
  EXPECT_EQ(FormatGoDuration(milliseconds(-250)), "-250ms");
  EXPECT_EQ(FormatGoDuration(seconds(0)), "0s");
}

// docs/configuration.md must contain a table row for each field. The row begins with the field's
// path and default.
TEST(KubeProxyConfigTest, S289ToS317_TheDocumentationHasEveryFieldAndItsDefault) {
  const std::string docs = svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/configuration.md");
  for (const auto& [path, value] : ConfigurationDefaults()) {
    EXPECT_THAT(docs, HasSubstr(absl::StrCat("\n| `", path, "` | `", value, "` | ")));
  }
}

// The configuration files in deploy/kubernetes must have no findings.
TEST(KubeProxyConfigTest, TheFilesInDeployAreReadWithoutAWord) {
  for (const char* overlay : {"base", "push", "side-by-side"}) {
    const absl::StatusOr<ConfigurationFile> file = ReadConfigurationFile(
        absl::StrCat(SVCMAP_SOURCE_DIR "/deploy/kubernetes/", overlay, "/config.conf"));
    ASSERT_TRUE(file.ok()) << overlay << ": " << file.status();
    EXPECT_THAT(file->findings, IsEmpty()) << overlay;
  }
}

TEST(ConfigzTest, S267_ItIsTheFileWithItsDefaultsAsJson) {
  const ReadConfiguration read = ReadKubeProxyConfiguration(
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
      "mode: nftables\nnftables: {syncPeriod: 90s, masqueradeAll: true}\n"
      "nodePortAddresses: [192.0.2.0/24]\nfeatureGates: {Odd: true}\n");
  ASSERT_TRUE(read.errors.empty());
  const std::string text = ConfigzText(read.config);
  EXPECT_TRUE(text.starts_with(R"({"kubeproxy.config.k8s.io":{"bindAddress":)")) << text;
  for (const char* part :
       {R"("mode":"nftables")", R"("syncPeriod":"1m30s")", R"("masqueradeAll":true)",
        R"("nodePortAddresses":["192.0.2.0/24"])", R"("featureGates":{"Odd":true})",
        R"("metricsBindAddress":"127.0.0.1:10249")", R"("oomScoreAdj":-999)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

}  // namespace
}  // namespace svcmap::api
