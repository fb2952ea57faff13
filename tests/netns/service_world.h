// What the packet tests of Services share: one network (tests/support/topology.h) with some local
// pods, some remote pods and a client, and one svcmapd on its node, for all tests of a program.
// Each test starts with an agent that knows the node and the service ranges and nothing else, and
// with an empty connection table.
//
// Every pod answers on kPodPort, TCP, UDP and SCTP, IPv4 and IPv6, by its name. Behind the remote
// node stands "outside", which has kExternalIp, kLoadBalancerIp and kUnallocated as addresses of
// its own and answers on their ports 80 and 81: what the node leaves untouched arrives there.
#ifndef SVCMAP_TESTS_NETNS_SERVICE_WORLD_H_
#define SVCMAP_TESTS_NETNS_SERVICE_WORLD_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/agent.h"
#include "tests/support/builders.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/topology.h"

namespace svcmap::testing {

inline constexpr uint16_t kPodPort = 8080;
inline constexpr uint16_t kNodePort = 30080;
inline constexpr auto kShort = std::chrono::milliseconds(120);  // To see that nothing comes.

// An address in both families.
struct Address {
  std::string v4;
  std::string v6;
  const std::string& in(bool want_v6) const { return want_v6 ? v6 : v4; }
};

Address ClusterIp(int n);      // 10.96.0.N and fd00:96::N, N in 1..99
Address ClientAddress(int n);  // Of the client, one of 128 more: 203.0.113.128+N, N in 0..127.
inline const Address kExternalIp = {"198.51.100.40", "2001:db8:51::40"};
inline const Address kLoadBalancerIp = {"198.51.100.20", "2001:db8:51::20"};
inline const Address kWeb = ClusterIp(10);          // Of shop/web, in most tests.
inline const Address kUnallocated = ClusterIp(99);  // In the service range.
inline const Address kNode = {kNodeV4, kNodeV6};
inline const Address kNodeSecond = {kNodeSecondV4, kNodeSecondV6};

struct World {
  std::unique_ptr<Topology> topology;
  const Host* pod_a = nullptr;
  const Host* pod_b = nullptr;
  const Host* remote_pod = nullptr;
  const Host* client = nullptr;
  const Host* outside = nullptr;
  // The pods and the client by the letters of flow.h: L1 is pod_a, L2 pod_b, R1 remote_pod.
  std::map<std::string, const Host*> cast;
  std::vector<std::unique_ptr<EchoServer>> servers;  // Of the pods and outside.
  std::unique_ptr<Agent> agent;                      // Null after a failed restart.

  // Another svcmapd, with these flags, in place of the one that runs; it knows Basics().
  absl::Status RestartAgent(const std::vector<std::string>& flags);
  // The same, and it is told `objects` at once: what it finds of them in the kernel stays.
  absl::Status RestartAgent(const std::vector<std::string>& flags, const Objects& objects);

  const Host& node() const { return topology->node(); }
  static absl::StatusOr<std::unique_ptr<World>> Create();
};

// Empties the connection table of a namespace.
absl::Status FlushConntrack(const NetNs& netns);

// Polls `condition` until it holds: an error naming `what` when it does not within the deadline.
absl::Status Eventually(const std::string& what, const std::function<bool()>& condition,
                        std::chrono::seconds deadline = std::chrono::seconds(10));

// The Node and the service ranges: what every test starts with.
Objects Basics();

// Service `key` with the ports "tcp", "udp" and "sctp" 80, at this clusterIP.
AService Web(const std::string& key, const Address& cluster_ip);
// As Web, with nodePort kNodePort for each port, kExternalIp and kLoadBalancerIp.
AService ExternalWeb(const std::string& key, const Address& cluster_ip);

// A slice per family with those hosts, ports as in Web at kPodPort.
Objects WebSlices(const std::string& service, const std::vector<const Host*>& hosts);

// Lists one behind the other: of objects, flows, names.
template <typename T>
std::vector<T> operator+(std::vector<T> left, const std::vector<T>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The world; made at first use, for the whole program. Null if that failed.
  static World* world();
  Agent& agent() { return *world()->agent; }
  const Host& pod_a() { return *world()->pod_a; }
  const Host& pod_b() { return *world()->pod_b; }
  const Host& remote_pod() { return *world()->remote_pod; }
  const Host& client() { return *world()->client; }
  const Host& outside() { return *world()->outside; }
  const Host& node() { return world()->node(); }
};

// The same for each family.
class ServiceFamilyTest : public ServiceTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool v6() { return GetParam(); }
};

// The same for each family and protocol.
class ServiceFlowTest : public ServiceTest,
                        public ::testing::WithParamInterface<std::tuple<bool, Protocol>> {
 protected:
  static bool v6() { return std::get<0>(GetParam()); }
  static Protocol protocol() { return std::get<1>(GetParam()); }

  static Request To(const Address& address, uint16_t port = 80);
  // One that is expected to get no answer.
  static Request InVain(const Address& address, uint16_t port = 80);
  Answer Ask(const Host& from, const Request& request);
  const std::string& At(const Host& host) { return host.address(v6()); }
};

std::string FamilyParamName(const ::testing::TestParamInfo<bool>& info);
std::string FlowParamName(const ::testing::TestParamInfo<std::tuple<bool, Protocol>>& info);

#define INSTANTIATE_FAMILIES(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::Bool(), FamilyParamName)
#define INSTANTIATE_FLOWS(suite)                                                                   \
  INSTANTIATE_TEST_SUITE_P(, suite,                                                                \
                           ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(kProtocols)), \
                           FlowParamName)

// What came back from an attempt, in the words of docs/specification.md.
::testing::AssertionResult AnsweredBy(const Answer& answer, const std::string& server,
                                      const std::string& seen_source);
// By one of the pods.
::testing::AssertionResult AnsweredBySome(const Answer& answer,
                                          const std::vector<const Host*>& hosts,
                                          const std::string& seen_source);
::testing::AssertionResult Rejected(const Answer& answer);  // Port unreachable.
::testing::AssertionResult NoAnswer(const Answer& answer);  // Dropped, or ended in the sink.

#define EXPECT_ANSWERED_BY(answer, server, seen) EXPECT_TRUE(AnsweredBy(answer, server, seen))
#define EXPECT_REJECTED(answer) EXPECT_TRUE(Rejected(answer))
#define EXPECT_NO_ANSWER(answer) EXPECT_TRUE(NoAnswer(answer))

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_NETNS_SERVICE_WORLD_H_
