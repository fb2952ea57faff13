// Tests that SteadyTraffic detects failures.
#include <thread>

#include "tests/support/echo_server.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/steady_traffic.h"

namespace svcmap::testing {
namespace {

constexpr uint16_t kPort = 8080;

class SteadyTrafficTest : public PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(pod_, topology_->AddLocalPod("pod"));
    ASSERT_OK_AND_ASSIGN(client_, topology_->AddClient("client"));
    ASSERT_OK_AND_ASSIGN(server_,
                         EchoServer::StartAll(pod_->netns(), pod_->v4(), pod_->v6(), kPort, "pod"));
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      options_.targets.push_back(
          {{.protocol = protocol, .destination = pod_->v4(), .port = kPort}, {"pod"}});
    }
  }

  // Drops packets on the node that match `what` for `duration`.
  void Drop(const std::string& what, std::chrono::milliseconds duration) {
    ASSERT_OK(RunNft(
        topology_->node().netns(),
        "table ip t {\nchain c { type filter hook forward priority 0; " + what + " drop; }\n}\n"));
    std::this_thread::sleep_for(duration);
    ASSERT_OK(RunNft(topology_->node().netns(), "delete table ip t\n"));
  }

  const Host* pod_ = nullptr;
  const Host* client_ = nullptr;
  std::unique_ptr<EchoServer> server_;
  TrafficOptions options_;
};

TEST_F(SteadyTrafficTest, NothingFailsWhereNothingIsWrong) {
  ASSERT_OK_AND_ASSIGN(const auto traffic, SteadyTraffic::Start(client_->netns(), options_));
  ASSERT_OK(traffic->Go(200));
  const TrafficReport report = traffic->Stop();
  EXPECT_OK(report.Check());
  EXPECT_GT(report.open.attempts, 200);
  EXPECT_GT(report.connect.attempts, 200);
  EXPECT_GT(report.ask.attempts, 200);
}

TEST_F(SteadyTrafficTest, ALostSynAndALostAnswerAreSeen) {
  ASSERT_OK_AND_ASSIGN(const auto traffic, SteadyTraffic::Start(client_->netns(), options_));
  ASSERT_OK(traffic->Go(20));
  // Drop first SYNs and then all packets, because a client that waits for an answer sends no SYN.
  Drop("tcp flags & (syn | ack) == syn", std::chrono::milliseconds(100));
  Drop("", std::chrono::milliseconds(100));
  ASSERT_OK(traffic->Go(20));
  const TrafficReport report = traffic->Stop();
  EXPECT_FALSE(report.Check().ok());
  EXPECT_EQ(report.connect.failures, 0) << report.ToString();
  EXPECT_GT(report.connect.sent_twice, 0) << report.ToString();
  EXPECT_GT(report.connect.slow, 0) << report.ToString();
  EXPECT_GT(report.open.sent_twice, 0) << report.ToString();
  EXPECT_GT(report.ask.sent_twice, 0) << report.ToString();
}

TEST_F(SteadyTrafficTest, AnotherServerIsAFailure) {
  ASSERT_OK_AND_ASSIGN(auto traffic, SteadyTraffic::Start(client_->netns(), options_));
  traffic->Stop();
  options_.targets[1].servers = {"another-pod"};
  ASSERT_OK_AND_ASSIGN(traffic, SteadyTraffic::Start(client_->netns(), options_));
  ASSERT_OK(traffic->Go(5));
  TrafficReport report = traffic->Stop();
  EXPECT_EQ(report.ask.failures, report.ask.attempts);
  EXPECT_EQ(report.failures(), report.ask.failures);

  options_.targets[1].steady = false;
  ASSERT_OK_AND_ASSIGN(traffic, SteadyTraffic::Start(client_->netns(), options_));
  ASSERT_OK(traffic->Go(5));
  report = traffic->Stop();
  EXPECT_OK(report.Check());
  EXPECT_EQ(report.ask.tolerated_failures, report.ask.attempts);
}

TEST_F(SteadyTrafficTest, AnOpenConnectionThatBreaksIsAFailure) {
  ASSERT_OK_AND_ASSIGN(const auto traffic, SteadyTraffic::Start(client_->netns(), options_));
  ASSERT_OK(traffic->Go(5));
  server_.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (traffic->Report().open.failures == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(traffic->Stop().open.failures, 1);
}

}  // namespace
}  // namespace svcmap::testing
