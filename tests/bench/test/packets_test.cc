// Tests that svcmap-bench measures packet latencies correctly.
#include <gtest/gtest.h>

#include "tests/bench/packets/first_packets.h"
#include "tests/bench/packets/paced_connections.h"
#include "tests/bench/packets/packet_world.h"
#include "tests/bench/record/statistics.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tracked_flows.h"

namespace svcmap::bench {
namespace {

using proxy::Protocol;
using std::chrono::milliseconds;
using testing::SocketAddress;

class PacketWorldTest : public testing::PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(world_, PacketWorld::Create(Family::kIpv4));
  }

  static FlowTarget Target(Protocol protocol, const std::string& ip, uint16_t port = kPodPort) {
    return {protocol, *SocketAddress::Parse(ip, port)};
  }

  std::unique_ptr<PacketWorld> world_;
};

TEST_F(PacketWorldTest, EveryEndpointOfAnyClusterAnswers) {
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    for (const char* ip : {"11.0.0.1", "11.15.66.63", "64.0.0.1"}) {
      ASSERT_OK_AND_ASSIGN(const Latencies latencies,
                           MeasureFirstPackets(*world_, Target(protocol, ip), 50));
      EXPECT_EQ(latencies.count(), 50) << ip;
      EXPECT_EQ(latencies.failed, 0) << ip;
      EXPECT_GT(Median(latencies.microseconds), 0) << ip;
    }
  }
}

TEST_F(PacketWorldTest, EveryEndpointAnswersOverIpv6) {
  ASSERT_OK_AND_ASSIGN(world_, PacketWorld::Create(Family::kIpv6));
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    ASSERT_OK_AND_ASSIGN(const Latencies latencies,
                         MeasureFirstPackets(*world_, Target(protocol, "fd00::b00:1"), 50));
    EXPECT_EQ(latencies.count(), 50);
    EXPECT_EQ(latencies.failed, 0);
  }
}

TEST_F(PacketWorldTest, WhatIsRejectedCountsAsFailed) {
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    ASSERT_OK_AND_ASSIGN(const Latencies latencies,
                         MeasureFirstPackets(*world_, Target(protocol, "11.0.0.1", 9), 50));
    EXPECT_EQ(latencies.count(), 50);
    EXPECT_EQ(latencies.failed, 50);
    EXPECT_EQ(Median(latencies.WithFailures()), 2'000'000) << "refused at once";
  }
  ASSERT_OK_AND_ASSIGN(
      const ConnectionCount connections,
      CountConnections(*world_, Target(Protocol::kTcp, "11.0.0.1", 9), milliseconds(50)));
  EXPECT_EQ(connections.made, 0);
  EXPECT_GT(connections.failed, 0);
}

TEST_F(PacketWorldTest, ConnectionsAreCountedForTheTimeGiven) {
  ASSERT_OK_AND_ASSIGN(
      const ConnectionCount connections,
      CountConnections(*world_, Target(Protocol::kTcp, "11.0.0.1"), milliseconds(200)));
  EXPECT_GT(connections.made, 0);
  EXPECT_EQ(connections.failed, 0);
  EXPECT_GE(connections.seconds, 0.2);
  EXPECT_DOUBLE_EQ(connections.per_second(),
                   static_cast<double>(connections.made) / connections.seconds);
}

TEST_F(PacketWorldTest, NoSourceComesTwiceAndTrackedFlowsAreForgotten) {
  ASSERT_OK(testing::RunNft(world_->node(),
                            "table ip t { chain c { type filter hook forward priority 0; "
                            "ct state invalid counter; }; }\n"));
  const auto count = [&] { return world_->node().Run(testing::TrackedFlowCount); };
  ASSERT_OK(MeasureFirstPackets(*world_, Target(Protocol::kUdp, "11.0.0.1"), 100).status());
  EXPECT_GE(count(), 100);
  ASSERT_OK(world_->ForgetFlows());
  EXPECT_EQ(count(), 0);
}

TEST_F(PacketWorldTest, PacedConnectionsGoOnWhateverBecomesOfThem) {
  using Clock = PacedConnections::Clock;
  const auto count_for = [&](const FlowTarget& target) -> absl::StatusOr<Latencies> {
    const Clock::time_point from = Clock::now();
    const auto paced = PacedConnections::Start(*world_, target, 200);
    if (!paced.ok()) return paced.status();
    std::this_thread::sleep_for(milliseconds(300));
    const Clock::time_point to = Clock::now();
    (*paced)->Stop();
    return (*paced)->Between(from, to);
  };
  ASSERT_OK_AND_ASSIGN(const Latencies answered, count_for(Target(Protocol::kTcp, "11.0.0.1")));
  EXPECT_GE(answered.count(), 50);
  EXPECT_EQ(answered.failed, 0);
  // No Service has the address 10.96.0.1, so no endpoint answers.
  ASSERT_OK_AND_ASSIGN(const Latencies lost, count_for(Target(Protocol::kTcp, "10.96.0.1")));
  EXPECT_GE(lost.count(), 50);
  EXPECT_EQ(lost.failed, lost.count());
}

}  // namespace
}  // namespace svcmap::bench
