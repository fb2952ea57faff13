// Tests of --answer-ping. The node answers echo requests to Service addresses, with the Service
// address as the source. The veths of the node to local pods have no IPv4 address, as with Calico.
//
// The host "outside" also has the external addresses. In these tests, it drops echo requests, so
// that only the node can answer.
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "tests/netns/service_world.h"
#include "tests/support/nft.h"
#include "tests/support/socket_address.h"

namespace svcmap::testing {
namespace {

constexpr int kRate = 1000;  // Answered requests per second, and size of a burst.

class PingTest : public ServiceFamilyTest {
 protected:
  void SetUp() override {
    ServiceFamilyTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(DropEchoRequests(outside().netns(), "silent"));
  }
  void TearDown() override {
    if (world() == nullptr) return;
    ServiceFamilyTest::TearDown();
    EXPECT_OK(RunNft(outside().netns(), "delete table inet silent\n"));
  }
  std::vector<std::string> AgentFlags() override { return {"--answer-ping"}; }

  // A reply counts only if it comes from `address`, because the socket is connected. An identifier
  // of 0 selects a random identifier.
  Answer Echo(const Host& from, const Address& address, uint16_t identifier = 0,
              std::chrono::milliseconds timeout = std::chrono::milliseconds(500)) {
    return Ping(from.netns(),
                {.destination = address.in(v6()), .source_port = identifier, .timeout = timeout});
  }
  bool Answers(const Host& from, const Address& address) {
    return Echo(from, address).outcome == Outcome::kAnswered;
  }
  bool IsSilent(const Host& from, const Address& address) {
    return Echo(from, address, 0, kShort).outcome != Outcome::kAnswered;
  }
  void ExpectAnswers(const Address& address) {
    for (const Host* from : {&pod_a(), &remote_pod(), &client(), &node()}) {
      // A request can be lost while the kernel looks for a neighbor.
      EXPECT_OK(Eventually(absl::StrCat("answer from ", address.in(v6()), " to ", from->name()),
                           [&] { return Answers(*from, address); }));
    }
  }
  // A table of another program, which drops echo requests that were translated to the node.
  absl::Status DropTranslated() {
    return DropEchoRequests(node().netns(), "translated", "ct status dnat");
  }
  absl::Status KeepTranslated() { return RunNft(node().netns(), "delete table inet translated\n"); }
  std::string Table() const { return v6() ? "ip6 svcmap" : "ip svcmap"; }
};
INSTANTIATE_FAMILIES(PingTest);

TEST_P(PingTest, RequestsWithTheSameIdentifierAreToldApart) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb), Web("shop/b", ClusterIp(11))}));
  // Connection tracking keeps the entry of each request for 30 s. All replies have the same source
  // and destination before their translation is reversed.
  for (const Address& address : {kWeb, ClusterIp(11), kNode, kExternalIp, kWeb}) {
    for (const Host* from : {&pod_a(), &node()}) {
      EXPECT_EQ(Echo(*from, address, /*identifier=*/77).outcome, Outcome::kAnswered)
          << from->name() << " to " << address.in(v6());
    }
  }
}

// For example, keepalived adds a load balancer IP to an interface. The kernel answers at this
// address without a translation, and continues to do so.
TEST_P(PingTest, AnAddressOfTheNodeIsNotTranslated) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb)}));
  const auto change = [this](const char* verb) {
    std::vector<std::string> argv = {
        "ip",  "addr", verb, absl::StrCat(kLoadBalancerIp.in(v6()), v6() ? "/128" : "/32"),
        "dev", "lo"};
    // Until duplicate address detection has ended, the kernel does not answer.
    if (v6()) argv.emplace_back("nodad");
    return RunOk({.argv = argv, .netns = &node().netns()}).status();
  };
  ASSERT_OK(DropTranslated());
  ASSERT_OK(FlushConntrack(node().netns()));
  EXPECT_TRUE(IsSilent(client(), kLoadBalancerIp));
  ASSERT_OK(change("add"));
  ExpectAnswers(kLoadBalancerIp);
  EXPECT_TRUE(IsSilent(client(), kWeb));
  EXPECT_OK(change("del"));
  EXPECT_OK(KeepTranslated());
}

TEST_P(PingTest, RequestsAreTranslatedToACurrentAddressOfTheNode) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb)}));
  const auto target_is = [this](const Address& address) {
    const auto map = Nft(node().netns(), absl::StrCat("list map ", Table(), " ping-target"));
    return map.ok() && map->find(absl::StrCat(" : ", address.in(v6()), " ")) != std::string::npos;
  };
  EXPECT_TRUE(target_is(kNode));
  ASSERT_OK(agent().Apply({ANode(kAgentNode).InternalIp(kNodeSecondV4).InternalIp(kNodeSecondV6)}));
  EXPECT_TRUE(target_is(kNodeSecond));
  ExpectAnswers(kWeb);
  // The address in the Node object is not an address of the node, for example behind NAT. The
  // lowest interface address is used instead.
  ASSERT_OK(agent().Apply({ANode(kAgentNode).InternalIp("192.0.2.55").InternalIp("2001:db8::55")}));
  EXPECT_TRUE(target_is(kNode));
  ExpectAnswers(kWeb);
}

// Sends `count` echo requests and returns the number of replies, and the time between the first
// request and the last reply.
std::pair<int, std::chrono::duration<double>> Flood(const std::string& address, int count) {
  const auto begin = std::chrono::steady_clock::now();
  const auto to = SocketAddress::Parse(address, 0);
  const bool v6 = to->v6();
  const UniqueFd fd(::socket(to->family(), SOCK_RAW | SOCK_CLOEXEC, v6 ? 58 : 1));
  const int room = 32 << 20;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
  EXPECT_EQ(::connect(fd.get(), to->get(), to->size()), 0);
  icmphdr echo = {};
  echo.type = v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
  // The checksum of a header with only a type. The kernel calculates the ICMPv6 checksum.
  if (!v6) echo.checksum = htons(static_cast<uint16_t>(~(ICMP_ECHO << 8)));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(::send(fd.get(), &echo, sizeof(echo), 0), static_cast<ssize_t>(sizeof(echo)));
  }
  std::pair<int, std::chrono::duration<double>> result;
  pollfd readable = {fd.get(), POLLIN, 0};
  while (::poll(&readable, 1, 200) > 0) {
    char packet[256];
    const ssize_t size = ::recv(fd.get(), packet, sizeof(packet), 0);
    const ssize_t header = v6 ? 0 : 20;
    if (size <= header) continue;
    const auto type = static_cast<uint8_t>(packet[header]);
    if (type != (v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY)) continue;
    ++result.first;
    result.second = std::chrono::steady_clock::now() - begin;
  }
  return result;
}

TEST_P(PingTest, TheNumberOfRepliesPerSecondIsLimited) {
  ASSERT_OK(agent().Apply(Objects{ExternalWeb("shop/web", kWeb)}));
  constexpr int kCount = 4 * kRate;
  const auto flood = [&](const Address& address) {
    return client().netns().Run([&] { return Flood(address.in(v6()), kCount); });
  };
  EXPECT_EQ(flood(kNode).first, kCount) << "addresses of the node have no limit";
  const auto [replies, time] = flood(kWeb);
  EXPECT_GE(replies, kRate);
  EXPECT_LE(replies, kRate + static_cast<int>(kRate * time.count()) + 1);
  EXPECT_LT(replies, kCount);
}

}  // namespace
}  // namespace svcmap::testing
