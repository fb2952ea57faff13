// Tests the disturbances that "svcmap-bench latency --during" causes.
#include "tests/bench/commands/disturbance.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/packet_test.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

using testing::PacketTest;

std::set<std::string> AllAddressesOf(const Cluster& cluster) {
  std::set<std::string> all;
  for (const ServicePort& port : cluster.ports()) {
    for (const BenchEndpoint& endpoint : port.endpoints) all.insert(endpoint.address.ip.ToString());
  }
  return all;
}

TEST(DisturbanceTest, NoEndpointIsInBothClusters) {
  const Cluster cluster({.services = 20, .endpoints = 3});
  const Cluster other = WithOtherEndpoints(cluster);
  std::set<std::string> both = AllAddressesOf(cluster);
  both.merge(AllAddressesOf(other));
  EXPECT_EQ(both.size(), 120u);
  EXPECT_EQ(other.ports().back().cluster_ip, cluster.ports().back().cluster_ip);
}

class DisturbedTest : public PacketTest {
 protected:
  // Creates the compared implementation `name` and loads the cluster.
  Contender Load(const std::string& name) {
    common_.opponents = {name};
    common_.settings.svcmapd = SVCMAP_BIN_DIR "/svcmapd";
    Entrants entrants(common_);
    const auto samples = Samples::Open("");
    Recorder recorder(**samples, "latency", "20x3");
    std::vector<Contender> all = LoadContenders(common_, cluster_, entrants, recorder);
    EXPECT_EQ(all.size(), 1u);
    return std::move(all.at(0));
  }

  CommonOptions common_;
  const Cluster cluster_{{.services = 20, .endpoints = 3}};
  const DisturbanceOptions options_{.per_second = 200, .seconds = 1};
};

TEST_F(DisturbedTest, EverySyncOfSvcmapWrites) {
  Contender svcmap = Load("svcmap");
  const Cluster other = WithOtherEndpoints(cluster_);
  ASSERT_OK_AND_ASSIGN(const Cost same, svcmap.opponent->Resync(cluster_));
  EXPECT_EQ(same.kernel_seconds, 0) << "nothing to write";
  for (const Cluster* cluster : {&other, &cluster_, &other, &cluster_}) {
    ASSERT_OK_AND_ASSIGN(const Cost cost, svcmap.opponent->Resync(*cluster));
    EXPECT_GT(cost.kernel_seconds, 0);
  }
  ASSERT_OK_AND_ASSIGN(
      const Disturbed disturbed,
      MeasureDisturbed(svcmap, cluster_, Disturbance::kSync, options_, std::chrono::seconds(10)));
  EXPECT_GE(disturbed.times, 2);
  EXPECT_EQ(disturbed.times % 2, 0) << "ends with the cluster that it began with";
  EXPECT_EQ(disturbed.during.failed, 0);
  ASSERT_OK_AND_ASSIGN(const Cost after, svcmap.opponent->Resync(cluster_));
  EXPECT_EQ(after.kernel_seconds, 0);
}

TEST_F(DisturbedTest, OnlySvcmapRepairs) {
  Contender nftables = Load("nftables");
  EXPECT_TRUE(absl::IsUnimplemented(
      MeasureDisturbed(nftables, cluster_, Disturbance::kRepair, options_, std::chrono::seconds(10))
          .status()));
}

TEST(EntrantsTest, WhatIsUnimplementedExcludesNobodyFromMore) {
  CommonOptions common;
  common.opponents = {"netlink", "nftables"};
  Entrants entrants(common);
  const auto samples = Samples::Open("");
  Recorder recorder(**samples, "sync", "10x1");
  const ClusterShape shape{.services = 10, .endpoints = 1};
  entrants.Fail("netlink", shape, kLoad, 1, absl::UnimplementedError("why"), recorder);
  entrants.Fail("nftables", shape, kLoad, 1, absl::InternalError("why"), recorder);
  EXPECT_EQ(recorder.Trouble("netlink", kLoad), "");
  EXPECT_FALSE(entrants.IsOut("netlink", shape));
  EXPECT_EQ(recorder.Trouble("nftables", kLoad), "failed");
  EXPECT_TRUE(entrants.IsOut("nftables", shape));
}

}  // namespace
}  // namespace svcmap::bench
