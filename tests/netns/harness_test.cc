// Tests of the packet test harness without svcmap. If a test fails here, the results of other
// packet tests are meaningless. Most parts of the harness are tested by the packet tests.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/packet_test.h"
#include "tests/support/sctp_packet.h"
#include "tests/support/socket_address.h"
#include "tests/support/status_matchers.h"
#include "tests/support/topology.h"

namespace svcmap::testing {
namespace {

constexpr uint16_t kPodPort = 8080;

// Topology with two local pods and a client. Every pod answers on kPodPort with its name.
class HarnessTest : public PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(pod_a_, topology_->AddLocalPod("pod-a"));
    ASSERT_OK_AND_ASSIGN(pod_b_, topology_->AddLocalPod("pod-b"));
    ASSERT_OK_AND_ASSIGN(client_, topology_->AddClient("client"));
    for (const Host* host : {pod_a_, pod_b_}) {
      ASSERT_OK_AND_ASSIGN(auto server, EchoServer::StartAll(host->netns(), host->v4(), host->v6(),
                                                             kPodPort, host->name()));
      servers_.push_back(std::move(server));
    }
  }

  const Host* pod_a_ = nullptr;
  const Host* pod_b_ = nullptr;
  const Host* client_ = nullptr;
  std::vector<std::unique_ptr<EchoServer>> servers_;
};

// Runs for UDP and SCTP, once for every family.
class HarnessFlowTest : public HarnessTest,
                        public ::testing::WithParamInterface<std::tuple<Protocol, bool>> {
 protected:
  Protocol protocol() const { return std::get<0>(GetParam()); }
  bool v6() const { return std::get<1>(GetParam()); }
  Request To(const std::string& address, uint16_t port) const {
    return {.protocol = protocol(), .destination = address, .port = port};
  }
};

INSTANTIATE_TEST_SUITE_P(All, HarnessFlowTest,
                         ::testing::Combine(::testing::Values(Protocol::kUdp, Protocol::kSctp),
                                            ::testing::Bool()),
                         [](const auto& flow) {
                           return absl::StrCat(ProtocolName(std::get<0>(flow.param)),
                                               std::get<1>(flow.param) ? "v6" : "v4");
                         });

// Conntrack would treat a datagram from a reused source port as part of the previous flow. A SYN
// starts a new flow even if a closed TCP connection used the same port.
TEST_P(HarnessFlowTest, NoFlowHasTheSourcePortOfOneBefore) {
  std::set<uint16_t> ports;
  // Picking 500 of 28,000 ports at random would repeat a port in 98 of 100 runs.
  for (int i = 0; i < 500; ++i) {
    const Answer answer = Ask(pod_b_->netns(), To(pod_a_->address(v6()), kPodPort));
    EXPECT_EQ(answer.server, "pod-a") << answer;
    EXPECT_TRUE(ports.insert(answer.seen_port).second) << answer;
  }
}

TEST_F(HarnessTest, ServerCountsBadSctpChecksums) {
  std::string bytes = BuildSctpPacket({.destination_port = kPodPort, .chunk_type = kSctpInit});
  bytes[8] = static_cast<char>(bytes[8] ^ 1);
  for (bool v6 : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const SocketAddress pod, SocketAddress::Parse(pod_a_->address(v6), 0));
    const UniqueFd fd = client_->netns().Run(
        [&] { return UniqueFd(::socket(pod.family(), SOCK_RAW, IPPROTO_SCTP)); });
    ASSERT_EQ(::sendto(fd.get(), bytes.data(), bytes.size(), 0, pod.get(), pod.size()),
              static_cast<ssize_t>(bytes.size()));
    // The answer to a valid datagram shows that the server has processed the invalid datagram.
    EXPECT_EQ(
        Ask(client_->netns(),
            {.protocol = Protocol::kSctp, .destination = pod_a_->address(v6), .port = kPodPort})
            .server,
        "pod-a");
  }
  EXPECT_EQ(servers_[0]->sctp_bad_checksums(), 2);
}

}  // namespace
}  // namespace svcmap::testing
