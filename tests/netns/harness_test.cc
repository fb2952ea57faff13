// Tests of the packet test harness without svcmap: SteadyTraffic detects failures, and EchoServer
// counts bad SCTP checksums.
#include <netinet/in.h>
#include <sys/socket.h>

#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/nft.h"
#include "tests/support/packet_test.h"
#include "tests/support/sctp_packet.h"
#include "tests/support/socket_address.h"
#include "tests/support/status_matchers.h"
#include "tests/support/steady_traffic.h"
#include "tests/support/wait.h"

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

  // Drops packets on the node until each match has dropped at least one packet.
  void Drop(const std::vector<std::string>& matches) {
    std::string rules;
    for (const std::string& match : matches) rules += match + " counter drop\n";
    const NetNs& node = topology_->node().netns();
    ASSERT_OK(RunNft(
        node, "table ip t {\nchain c { type filter hook forward priority 0;\n" + rules + "}\n}\n"));
    EXPECT_TRUE(WaitUntil([&] {
      const absl::StatusOr<std::string> listed = ListNft(node, "list table ip t");
      return listed.ok() && listed->find("packets 0 ") == std::string::npos;
    }));
    ASSERT_OK(RunNft(node, "delete table ip t\n"));
  }

  const Host* pod_ = nullptr;
  const Host* client_ = nullptr;
  std::unique_ptr<EchoServer> server_;
  TrafficOptions options_;
};

TEST_F(SteadyTrafficTest, ALostSynAndALostAnswerAreSeen) {
  ASSERT_OK_AND_ASSIGN(const auto traffic, SteadyTraffic::Start(client_->netns(), options_));
  ASSERT_OK(traffic->Go(20));
  // Drop first SYNs and then other packets, because a client that waits for an answer sends no SYN.
  Drop({"tcp flags & (syn | ack) == syn"});
  Drop({"tcp flags & psh == psh tcp dport " + std::to_string(kPort), "meta l4proto udp"});
  ASSERT_OK(traffic->Go(20));
  const TrafficReport report = traffic->Stop();
  EXPECT_FALSE(report.Check().ok());
  EXPECT_EQ(report.connect.failures, 0) << report.ToString();
  EXPECT_GT(report.connect.sent_twice, 0) << report.ToString();
  EXPECT_GT(report.connect.slow, 0) << report.ToString();
  EXPECT_GT(report.open.sent_twice, 0) << report.ToString();
  EXPECT_GT(report.ask.sent_twice, 0) << report.ToString();
}

// Packet tests expect that this counter is 0.
TEST_F(SteadyTrafficTest, TheServerCountsBadSctpChecksums) {
  std::string bytes = BuildSctpPacket({.destination_port = kPort, .chunk_type = kSctpInit});
  bytes[8] = static_cast<char>(bytes[8] ^ 1);
  for (const bool v6 : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const SocketAddress pod, SocketAddress::Parse(pod_->address(v6), 0));
    const UniqueFd fd = client_->netns().Run(
        [&] { return UniqueFd(::socket(pod.family(), SOCK_RAW, IPPROTO_SCTP)); });
    ASSERT_EQ(::sendto(fd.get(), bytes.data(), bytes.size(), 0, pod.get(), pod.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  EXPECT_TRUE(WaitUntil([&] { return server_->sctp_bad_checksums() == 2; }));
}

}  // namespace
}  // namespace svcmap::testing
