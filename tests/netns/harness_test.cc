// Tests of the packet test harness without svcmap. If a test fails here, the results of other
// packet tests are meaningless.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "tests/support/chance.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/error_counters.h"
#include "tests/support/packet_test.h"
#include "tests/support/process.h"
#include "tests/support/sctp_packet.h"
#include "tests/support/socket_address.h"
#include "tests/support/status_matchers.h"
#include "tests/support/topology.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

constexpr uint16_t kPodPort = 8080;
// Time to wait if no answer is expected.
constexpr auto kShort = std::chrono::milliseconds(150);

struct Vip {
  const char* v4 = "10.96.0.10";
  const char* v6 = "fd00:96::10";
  const char* address(bool want_v6) const { return want_v6 ? v6 : v4; }
};

// Topology with two local pods, a remote pod and a client. Every pod answers on kPodPort with its
// name.
class HarnessTest : public PacketTest {
 protected:
  void SetUp() override {
    PacketTest::SetUp();
    if (topology_ == nullptr) return;
    ASSERT_OK_AND_ASSIGN(pod_a_, topology_->AddLocalPod("pod-a"));
    ASSERT_OK_AND_ASSIGN(pod_b_, topology_->AddLocalPod("pod-b"));
    ASSERT_OK_AND_ASSIGN(remote_pod_, topology_->AddRemotePod("remote-pod"));
    ASSERT_OK_AND_ASSIGN(client_, topology_->AddClient("client"));
    for (const Host* host : {pod_a_, pod_b_, remote_pod_}) {
      ASSERT_OK_AND_ASSIGN(auto server, EchoServer::StartAll(host->netns(), host->v4(), host->v6(),
                                                             kPodPort, host->name()));
      servers_.push_back(std::move(server));
    }
  }

  // Loads rules that translate VIP:80 to `pod` for TCP, UDP and SCTP, like svcmap's rules. `extra`
  // contains lines for the postrouting chains.
  absl::Status Translate(const Host& pod, const std::string& extra) {
    std::string script;
    for (bool v6 : {false, true}) {
      const char* family = v6 ? "ip6" : "ip";
      const std::string target =
          v6 ? absl::StrCat("[", pod.v6(), "]:", kPodPort) : absl::StrCat(pod.v4(), ":", kPodPort);
      const std::string rule =
          absl::StrCat(family, " daddr ", vip_.address(v6),
                       " meta l4proto { tcp, udp, sctp } th dport 80 dnat to ", target, "\n");
      absl::StrAppend(&script, "table ", family, " t {\n",
                      "chain prerouting { type nat hook prerouting priority -100; ", rule, "}\n",
                      "chain output { type nat hook output priority -100; ", rule, "}\n",
                      "chain postrouting { type nat hook postrouting priority 100; ", extra,
                      "}\n}\n");
    }
    return RunNft(topology_->node().netns(), script);
  }

  const Vip vip_{};
  const Host* pod_a_ = nullptr;
  const Host* pod_b_ = nullptr;
  const Host* remote_pod_ = nullptr;
  const Host* client_ = nullptr;
  std::vector<std::unique_ptr<EchoServer>> servers_;
};

// Runs once for every protocol and family.
class HarnessFlowTest : public HarnessTest,
                        public ::testing::WithParamInterface<std::tuple<Protocol, bool>> {
 protected:
  Protocol protocol() const { return std::get<0>(GetParam()); }
  bool v6() const { return std::get<1>(GetParam()); }
  Request To(const std::string& address, uint16_t port) const {
    return {.protocol = protocol(), .destination = address, .port = port};
  }
  Request ToPod(const Host& host) const { return To(host.address(v6()), kPodPort); }
  Request ToVip() const { return To(vip_.address(v6()), 80); }
  std::string At(const Host& host) const { return host.address(v6()); }
};

INSTANTIATE_TEST_SUITE_P(All, HarnessFlowTest,
                         ::testing::Combine(::testing::Values(Protocol::kTcp, Protocol::kUdp,
                                                              Protocol::kSctp),
                                            ::testing::Bool()),
                         [](const auto& flow) {
                           return absl::StrCat(ProtocolName(std::get<0>(flow.param)),
                                               std::get<1>(flow.param) ? "v6" : "v4");
                         });

#define EXPECT_ANSWER(answer, name, ip)            \
  do {                                             \
    const Answer a = (answer);                     \
    EXPECT_EQ(a.outcome, Outcome::kAnswered) << a; \
    EXPECT_EQ(a.server, (name)) << a;              \
    EXPECT_EQ(a.seen_ip, (ip)) << a;               \
  } while (false)

TEST_P(HarnessFlowTest, EverybodyReachesPodsAndIsSeenAsItself) {
  for (const Host* from : {pod_b_, remote_pod_, client_}) {
    EXPECT_ANSWER(Ask(from->netns(), ToPod(*pod_a_)), "pod-a", At(*from));
    EXPECT_ANSWER(Ask(from->netns(), ToPod(*remote_pod_)), "remote-pod", At(*from));
  }
  EXPECT_ANSWER(Ask(topology_->node().netns(), ToPod(*pod_a_)), "pod-a", At(topology_->node()));
  EXPECT_ANSWER(Ask(topology_->remote().netns(), ToPod(*pod_a_)), "pod-a", At(topology_->remote()));
  EXPECT_ANSWER(Ask(pod_a_->netns(), ToPod(*pod_a_)), "pod-a", At(*pod_a_));
}

TEST_P(HarnessFlowTest, SourcePortIsKept) {
  Request request = ToPod(*pod_a_);
  request.source_port = 4711;
  const Answer answer = Ask(pod_b_->netns(), request);
  EXPECT_ANSWER(answer, "pod-a", At(*pod_b_));
  EXPECT_EQ(answer.seen_port, 4711);
}

// Conntrack would treat a datagram from a reused source port as part of the previous flow.
TEST_P(HarnessFlowTest, NoFlowHasTheSourcePortOfOneBefore) {
  // A SYN starts a new flow even if a closed TCP connection used the same port.
  if (protocol() == Protocol::kTcp) return;
  std::set<uint16_t> ports;
  // Picking 500 of 28,000 ports at random would repeat a port in 98 of 100 runs.
  for (int i = 0; i < 500; ++i) {
    const Answer answer = Ask(pod_b_->netns(), ToPod(*pod_a_));
    EXPECT_ANSWER(answer, "pod-a", At(*pod_b_));
    EXPECT_TRUE(ports.insert(answer.seen_port).second) << answer;
  }
}

TEST_P(HarnessFlowTest, SecondClientAddress) {
  const std::string other = v6() ? "2001:db8:203::c8" : "203.0.113.200";
  ASSERT_OK(topology_->AddPrefix(*client_, absl::StrCat(other, v6() ? "/128" : "/32")));
  Request request = ToPod(*pod_a_);
  request.source = other;
  EXPECT_ANSWER(Ask(client_->netns(), request), "pod-a", other);
}

TEST_P(HarnessFlowTest, NobodyListens) {
  if (protocol() == Protocol::kSctp) {
    // Without a raw socket and without SCTP in the kernel, the host answers with ICMP "protocol
    // unreachable", which does not count as a rejection.
    const Answer answer = Ask(pod_a_->netns(), To(At(*client_), 9));
    EXPECT_EQ(answer.outcome, Outcome::kOther) << answer;
    EXPECT_GE(answer.icmp_type, 0) << answer;
    // The server does not answer on ports without a binding.
    Request request = To(At(*pod_a_), 9);
    request.timeout = kShort;
    EXPECT_EQ(Ask(client_->netns(), request).outcome, Outcome::kTimedOut);
    return;
  }
  const Answer answer = Ask(client_->netns(), To(At(*pod_a_), 9));
  EXPECT_EQ(answer.outcome, Outcome::kRejected) << answer;
  EXPECT_EQ(answer.PortUnreachable(), protocol() == Protocol::kUdp) << answer;
}

TEST_P(HarnessFlowTest, TranslatedOnTheNode) {
  ASSERT_OK(Translate(*pod_a_, ""));
  for (const Host* from : {pod_b_, remote_pod_, client_}) {
    EXPECT_ANSWER(Ask(from->netns(), ToVip()), "pod-a", At(*from));
  }
  EXPECT_ANSWER(Ask(topology_->node().netns(), ToVip()), "pod-a", At(topology_->node()));
  for (const auto& server : servers_) EXPECT_EQ(server->sctp_bad_checksums(), 0);
}

TEST_P(HarnessFlowTest, TranslatedToTheRemotePodAndMasqueraded) {
  ASSERT_OK(Translate(*remote_pod_, "masquerade fully-random\n"));
  for (const Host* from : {pod_b_, client_, &topology_->node()}) {
    EXPECT_ANSWER(Ask(from->netns(), ToVip()), "remote-pod", At(topology_->node()));
  }
  EXPECT_EQ(servers_[2]->sctp_bad_checksums(), 0);
}

TEST_P(HarnessFlowTest, HairpinSeesTheNodesPrimaryAddress) {
  ASSERT_OK(Translate(*pod_a_, "masquerade fully-random\n"));
  EXPECT_ANSWER(Ask(pod_a_->netns(), ToVip()), "pod-a", At(topology_->node()));
}

// All sources, including the node, must distinguish a reject from a drop.
TEST_P(HarnessFlowTest, RejectAndDrop) {
  ASSERT_OK(
      RunNft(topology_->node().netns(),
             absl::StrCat(
                 "table inet f {\nchain forwarded { type filter hook forward priority 0;\n"
                 "meta l4proto { tcp, udp, sctp } th dport 81 reject with icmpx port-unreachable\n"
                 "meta l4proto { tcp, udp, sctp } th dport 82 drop\n}\n"
                 "chain output { type filter hook output priority 0;\n"
                 "meta l4proto { tcp, udp, sctp } th dport 81 reject with icmpx port-unreachable\n"
                 "meta l4proto { tcp, udp, sctp } th dport 82 drop\n}\n}\n")));
  for (const Host* from : {pod_b_, client_, &topology_->node()}) {
    const Answer rejected = Ask(from->netns(), To(vip_.address(v6()), 81));
    EXPECT_EQ(rejected.outcome, Outcome::kRejected) << from->name() << ": " << rejected;
    EXPECT_TRUE(rejected.PortUnreachable()) << from->name() << ": " << rejected;
    Request request = To(vip_.address(v6()), 82);
    request.timeout = kShort;
    const Answer dropped = Ask(from->netns(), request);
    EXPECT_EQ(dropped.outcome, Outcome::kTimedOut) << from->name() << ": " << dropped;
  }
  // The kernel must not limit the rate of rejects.
  const Tally tally = AskMany(client_->netns(), To(vip_.address(v6()), 81), 3000);
  EXPECT_EQ(tally.rejected, 3000) << tally.ToString();
}

TEST_P(HarnessFlowTest, ManyAnswersAreSpreadAndCounted) {
  // The map selects one of two pods at random.
  const std::string map = v6()
                              ? absl::StrCat("ip6 daddr ", vip_.v6,
                                             " meta l4proto { tcp, udp, sctp } th dport 80 dnat to "
                                             "numgen random mod 2 map { 0 : ",
                                             pod_a_->v6(), ", 1 : ", pod_b_->v6(), " }")
                              : absl::StrCat("ip daddr ", vip_.v4,
                                             " meta l4proto { tcp, udp, sctp } th dport 80 dnat to "
                                             "numgen random mod 2 map { 0 : ",
                                             pod_a_->v4(), ", 1 : ", pod_b_->v4(), " }");
  ASSERT_OK(RunNft(topology_->node().netns(),
                   absl::StrCat("table ", v6() ? "ip6" : "ip",
                                " t { chain prerouting { type nat hook prerouting priority -100; ",
                                map, "; }\n}\n")));
  // The rules do not translate the port, because the pods also listen on the Service port.
  for (size_t i : {0u, 1u}) {
    const Host& pod = i == 0 ? *pod_a_ : *pod_b_;
    ASSERT_OK(servers_[i]->Listen({protocol(), At(pod), 80, pod.name()}));
  }
  constexpr int kCount = 2000;
  Tally tally = AskMany(client_->netns(), ToVip(), kCount);
  EXPECT_EQ(tally.answered, kCount) << tally.ToString();
  EXPECT_EQ(tally.by_server.size(), 2u) << tally.ToString();
  EXPECT_NEAR(tally.by_server["pod-a"], kCount / 2, ToleranceOfCount(kCount, 0.5))
      << tally.ToString();
}

TEST_F(HarnessTest, PingAnsweredRejectedAndDropped) {
  ASSERT_OK(RunNft(topology_->node().netns(),
                   "table inet f { chain forwarded { type filter hook forward priority 0;\n"
                   "ip daddr 10.96.0.10 reject with icmpx port-unreachable\n"
                   "ip6 daddr fd00:96::10 reject with icmpx port-unreachable\n}\n}\n"));
  for (bool v6 : {false, true}) {
    EXPECT_EQ(Ping(client_->netns(), {.destination = pod_a_->address(v6)}).outcome,
              Outcome::kAnswered);
    const Answer rejected = Ping(client_->netns(), {.destination = vip_.address(v6)});
    EXPECT_EQ(rejected.outcome, Outcome::kRejected) << rejected;
    EXPECT_TRUE(rejected.PortUnreachable()) << rejected;
    // No host has the destination address, so the node routes the packet to the sink.
    const Answer dropped = Ping(
        client_->netns(), {.destination = v6 ? "fd00:96::99" : "10.96.0.99", .timeout = kShort});
    EXPECT_EQ(dropped.outcome, Outcome::kTimedOut) << dropped;
  }
}

TEST_F(HarnessTest, BulkAndFragmentsArriveWholeWithAnyOffloads) {
  ASSERT_OK(Translate(*remote_pod_, "masquerade fully-random\n"));
  for (bool offloads : {true, false}) {
    SCOPED_TRACE(offloads ? "offloads on" : "offloads off");
    ASSERT_OK(topology_->SetOffloads(offloads));
    for (bool v6 : {false, true}) {
      for (const Host* from : {pod_a_, client_, &topology_->node()}) {
        SCOPED_TRACE(absl::StrCat(from->name(), v6 ? " v6" : " v4"));
        std::vector<ErrorCounters> before;
        for (const Host* end : {from, remote_pod_}) {
          ASSERT_OK_AND_ASSIGN(before.emplace_back(), ReadErrorCounters(end->netns()));
        }
        const Request request = {
            .destination = vip_.address(v6), .port = 80, .timeout = std::chrono::seconds(20)};
        ASSERT_OK_AND_ASSIGN(const Answer answer, BulkTcp(from->netns(), request, 10'000'000));
        EXPECT_EQ(answer.server, "remote-pod");
        for (size_t size : {1u, 1400u, 1473u, 9000u, 60000u}) {
          EXPECT_OK(BigUdp(from->netns(), request, size)) << size;
        }
        size_t i = 0;
        for (const Host* end : {from, remote_pod_}) {
          ASSERT_OK_AND_ASSIGN(const ErrorCounters after, ReadErrorCounters(end->netns()));
          EXPECT_EQ((after - before[i]).bad_checksums(), 0) << after - before[i];
          EXPECT_EQ((after - before[i]).in_errors(), 0) << after - before[i];
          ++i;
        }
      }
    }
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

TEST_F(HarnessTest, OpenFlowStaysWithItsServer) {
  ASSERT_OK(Translate(*pod_a_, ""));
  ASSERT_OK_AND_ASSIGN(TcpFlow flow,
                       TcpFlow::Open(client_->netns(), {.destination = vip_.v4, .port = 80}));
  EXPECT_EQ(flow.answer().server, "pod-a");
  ASSERT_OK(RunNft(topology_->node().netns(), "flush chain ip t prerouting\n"));
  EXPECT_OK(flow.Exchange(100'000));
  servers_[0].reset();
  EXPECT_FALSE(flow.Exchange(1).ok());
}

TEST_F(HarnessTest, OneServerPlaysAThousandPods) {
  ASSERT_OK(topology_->AddPrefix(*pod_a_, "10.244.1.128/25"));
  ASSERT_OK(topology_->AddPrefix(*pod_a_, "fd00:10:244:1:1::/80"));
  ASSERT_OK(topology_->AddPrefix(*remote_pod_, "10.244.2.128/25"));
  ASSERT_OK_AND_ASSIGN(auto server, EchoServer::Start(pod_a_->netns()));
  std::vector<Binding> bindings;
  for (int i = 0; i < 1000; ++i) {
    const Protocol protocol = i % 3 == 0   ? Protocol::kTcp
                              : i % 3 == 1 ? Protocol::kUdp
                                           : Protocol::kSctp;
    const std::string ip = i % 2 == 0 ? absl::StrCat("10.244.1.", 128 + i / 10)
                                      : absl::StrCat("fd00:10:244:1:1::", absl::Hex(i));
    bindings.push_back({protocol, ip, static_cast<uint16_t>(1000 + i), absl::StrCat("pod-", i)});
  }
  ASSERT_OK(server->Listen(bindings));
  for (const Binding& binding : bindings) {
    const Answer answer =
        Ask(remote_pod_->netns(),
            {.protocol = binding.protocol, .destination = binding.ip, .port = binding.port});
    ASSERT_EQ(answer.server, binding.name) << answer;
  }
  ASSERT_OK_AND_ASSIGN(auto remote_server, EchoServer::Start(remote_pod_->netns()));
  ASSERT_OK(remote_server->Listen({Protocol::kTcp, "10.244.2.200", 80, "far"}));
  EXPECT_ANSWER(Ask(client_->netns(), {.destination = "10.244.2.200", .port = 80}), "far",
                client_->v4());
}

TEST_F(PacketTest, TenHostsAreQuick) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) ASSERT_OK(topology_->AddLocalPod(absl::StrCat("pod-", i)).status());
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  RecordProperty("milliseconds", static_cast<int>(took.count()));
  // Adding ten hosts normally takes about 100 ms, but longer with sanitizers or under load.
  EXPECT_LT(took, std::chrono::seconds(5));
}

}  // namespace
}  // namespace svcmap::testing
