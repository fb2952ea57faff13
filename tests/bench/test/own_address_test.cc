// Tests that no compared implementation masquerades the measured packets, because masquerading
// would slow down only some implementations.
#include <gtest/gtest.h>

#include "tests/bench/commands/contenders.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

class OwnAddressTest : public testing::PacketTest,
                       public ::testing::WithParamInterface<const char*> {
 protected:
  absl::StatusOr<Latencies> Ask(Contender& contender, const Cluster& cluster, int flows) {
    const auto target = TargetOf(contender.name, cluster.ports().back());
    if (!target.ok()) return target.status();
    return MeasureFirstPackets(*contender.world, *target, flows);
  }
};

TEST_P(OwnAddressTest, PodsReachClusterIpsWithTheirOwnAddress) {
  ASSERT_OK_AND_ASSIGN(const auto samples, Samples::Open(""));
  CommonOptions common;
  common.opponents = {GetParam()};
  common.settings.svcmapd = SVCMAP_BIN_DIR "/svcmapd";
  Entrants entrants(common);
  Recorder recorder(*samples, "latency", "10x2");
  const Cluster cluster({.services = 10, .endpoints = 2});
  std::vector<Contender> contenders = LoadContenders(common, cluster, entrants, recorder);
  ASSERT_EQ(contenders.size(), 1u);

  // Make the pods accept only packets that have the client's source address.
  ASSERT_OK(testing::RunNft(contenders[0].world->pod_netns(),
                            "table ip t { chain c { type filter hook input priority 0; "
                            "ip saddr != 10.244.1.128/25 drop; }; }\n"));
  ASSERT_OK_AND_ASSIGN(const Latencies own, Ask(contenders[0], cluster, 50));
  EXPECT_EQ(own.count(), 50);
  EXPECT_EQ(own.failed, 0);

  // If the node masquerades packets, the pods drop the packets.
  ASSERT_OK(testing::RunNft(contenders[0].world->node(),
                            "table ip t { chain c { type nat hook postrouting priority 90; "
                            "masquerade; }; }\n"));
  ASSERT_OK_AND_ASSIGN(const Latencies masqueraded, Ask(contenders[0], cluster, 1));
  EXPECT_EQ(masqueraded.count(), 1);
  EXPECT_EQ(masqueraded.failed, 1);
}

INSTANTIATE_TEST_SUITE_P(All, OwnAddressTest,
                         ::testing::Values("svcmap", "nftables", "iptables-legacy"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace svcmap::bench
