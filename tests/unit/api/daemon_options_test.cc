#include "api/daemon/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/config/detect_local.h"

namespace svcmap::api {
namespace {

DaemonOptions Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "svcmapd");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  const ParsedOptions parsed =
      ParseDaemonOptions(static_cast<int>(pointers.size()), pointers.data());
  EXPECT_FALSE(parsed.exit.has_value());
  return parsed.options;
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
            "--cluster-cidr \"10.245.0.0/16\" is the second block of IPv4");
  EXPECT_EQ(ParseDetectLocal({.cluster_cidr = "pods"}).status().message(),
            "--cluster-cidr \"pods\" is not an address block");
}

TEST(DaemonOptionsTest, S68_WithoutAClusterCidrNobodyIsToldApart) {
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
            "--pod-bridge-interface is needed in this mode");
  for (const std::string name : {"a/b", "a b", "veth*", "q\"", "sixteen-letters-"}) {
    EXPECT_EQ(ParseDetectLocal({.mode = "InterfaceNamePrefix", .interface_name_prefix = name})
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(DaemonOptionsTest, S90_MasqueradeAll) {
  EXPECT_FALSE(Parse({}).ruleset.masquerade_all);
  EXPECT_TRUE(Parse({"--masquerade-all"}).ruleset.masquerade_all);
}

TEST(DaemonOptionsTest, LimitsOfWhatControllersMayCost) {
  const DaemonOptions usual = Parse({});
  EXPECT_EQ(usual.state_limits.objects, 500'000u);
  EXPECT_EQ(usual.state_limits.endpoints_per_service, 65535u);
  EXPECT_EQ(usual.push_limits.max_batch_bytes, 16u * 1024 * 1024);
  EXPECT_EQ(usual.push_limits.max_batches_in_flight, 64u);
  EXPECT_EQ(usual.push_limits.max_bytes_in_flight, 64u * 1024 * 1024);
  EXPECT_EQ(usual.push_limits.max_streams, 16u);
  EXPECT_EQ(usual.push_limits.max_watchers, 16u);
  const DaemonOptions small =
      Parse({"--max-objects=1", "--max-endpoints-per-service=2", "--max-batch-bytes=4096",
             "--max-batches-in-flight=3", "--max-bytes-in-flight=5000", "--max-streams=4",
             "--max-watchers=5"});
  EXPECT_EQ(small.state_limits.objects, 1u);
  EXPECT_EQ(small.state_limits.endpoints_per_service, 2u);
  EXPECT_EQ(small.push_limits.max_batch_bytes, 4096u);
  EXPECT_EQ(small.push_limits.max_batches_in_flight, 3u);
  EXPECT_EQ(small.push_limits.max_bytes_in_flight, 5000u);
  EXPECT_EQ(small.push_limits.max_streams, 4u);
  EXPECT_EQ(small.push_limits.max_watchers, 5u);
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

TEST(DaemonOptionsTest, AnEmptyFolderKeepsNoState) {
  EXPECT_EQ(Parse({"--state-dir="}).state_dir, "");
  EXPECT_EQ(Parse({"--state-dir", ""}).state_dir, "");
  EXPECT_EQ(Parse({"--state-dir=/a=", "--masquerade-all"}).state_dir, "/a=");
}

TEST(DaemonOptionsTest, S258_S297_WhetherABindFailureIsFatal) {
  EXPECT_FALSE(Parse({}).bind_address_hard_fail);
  EXPECT_TRUE(Parse({"--bind-address-hard-fail"}).bind_address_hard_fail);
}

TEST(DaemonOptionsTest, S295_ABadHealthAddressIsBadUsage) {
  std::vector<std::string> arguments = {"svcmapd", "--healthz-bind-address", "localhost:10256"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  EXPECT_EQ(ParseDaemonOptions(static_cast<int>(pointers.size()), pointers.data()).exit, 2);
}

TEST(DaemonOptionsTest, S6_ExternalIpsAreProgrammedUnlessToldOtherwise) {
  EXPECT_TRUE(Parse({}).external_ips);
  EXPECT_FALSE(Parse({"--no-external-ips"}).external_ips);
}

}  // namespace
}  // namespace svcmap::api
