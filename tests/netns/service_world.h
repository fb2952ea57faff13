// Fixture of the packet tests. All tests of a program share one network (tests/support/topology.h)
// with local pods, remote pods and a client, and one svcmapd process on the node. Each test starts
// with an agent that has the flags of the fixture, only the node and the Service ranges, and with
// an empty connection tracking table.
//
// Every pod answers on kPodPort over TCP, UDP and SCTP, IPv4 and IPv6, with its name. The host
// "outside" behind the remote node has the addresses kExternalIp, kLoadBalancerIp and kUnallocated
// and answers on their ports 80 and 81. The host "outside" receives packets that the node does not
// translate.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/builders.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/kernel_check.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/topology.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

inline constexpr uint16_t kPodPort = 8080;
inline constexpr uint16_t kNodePort = 30080;
inline constexpr auto kShort = std::chrono::milliseconds(
    120);  // Time to wait if no answer is expected. Too short for answers.

// An IPv4 and an IPv6 address.
struct Address {
  std::string v4;
  std::string v6;
  const std::string& in(bool want_v6) const { return want_v6 ? v6 : v4; }
};

Address ClusterIp(int n);  // Returns 10.96.0.N and fd00:96::N, with N in 1..99.
// Returns an additional address of the client: 203.0.113.128+N, with N in 0..127.
Address ClientAddress(int n);
inline const Address kExternalIp = {"198.51.100.40", "2001:db8:51::40"};
inline const Address kLoadBalancerIp = {"198.51.100.20", "2001:db8:51::20"};
inline const Address kWeb = ClusterIp(10);  // clusterIP of shop/web in most tests.
// An address in the service range that no Service has.
inline const Address kUnallocated = ClusterIp(99);
inline const Address kNode = {kNodeV4, kNodeV6};
inline const Address kNodeSecond = {kNodeSecondV4, kNodeSecondV6};

// Values of svcmapd's /metrics page on port 10249, by name and labels in the notation of the page.
// Empty if there is no page.
using Samples = std::map<std::string, double>;
Samples ReadMetrics(const NetNs& netns);

struct World {
  std::unique_ptr<Topology> topology;
  const Host* pod_a = nullptr;
  const Host* pod_b = nullptr;
  const Host* remote_pod = nullptr;
  const Host* client = nullptr;
  const Host* outside = nullptr;
  // The pods and the client by their names in flow.h: L1 is pod_a, L2 is pod_b, R1 is remote_pod.
  std::map<std::string, const Host*> cast;
  // The servers of the pods and of the host "outside".
  std::vector<std::unique_ptr<EchoServer>> servers;
  std::unique_ptr<Agent> agent;    // The current agent. Null after a failed restart.
  std::vector<std::string> flags;  // The flags of the current agent.

  // Replaces svcmapd with a new process with these flags, and applies Basics().
  absl::Status RestartAgent(const std::vector<std::string>& flags);
  // Restarts svcmapd and sends `objects` as the first snapshot, so that svcmapd keeps existing rows
  // in the kernel.
  absl::Status RestartAgent(const std::vector<std::string>& flags, const Objects& objects);

  const Host& node() const { return topology->node(); }
  static absl::StatusOr<std::unique_ptr<World>> Create();
};

// Adds a table `name` that drops received echo requests of both families. With `condition`, for
// example "ct status dnat", it drops only requests that match the condition.
absl::Status DropEchoRequests(const NetNs& netns, const std::string& name,
                              const std::string& condition = "");

// Returns the initial objects of every test: the Node and the Service ranges.
Objects Basics();

// Builds Service `key` with this clusterIP and with port 80 for "tcp", "udp" and "sctp".
AService Web(const std::string& key, const Address& cluster_ip);
// Builds the same Service as Web, but with nodePort kNodePort for each port, kExternalIp and
// kLoadBalancerIp.
AService ExternalWeb(const std::string& key, const Address& cluster_ip);

struct SlicePort {
  std::string name;
  int number;
  Protocol protocol;
};

// Builds one slice per family with these hosts and ports.
Objects SlicesOf(const std::string& service, const std::vector<const Host*>& hosts,
                 const std::vector<SlicePort>& ports);
// Builds one slice per family with these hosts and the ports of Web(). The target port is kPodPort.
Objects WebSlices(const std::string& service, const std::vector<const Host*>& hosts);
// Returns the slices with a terminating first endpoint.
Objects WithFirstTerminating(Objects slices, bool serving);

// Concatenates lists of objects, flows or names.
template <typename T>
std::vector<T> operator+(std::vector<T> left, const std::vector<T>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The agent's flags. SetUp() restarts an agent that has other flags.
  virtual std::vector<std::string> AgentFlags() { return {}; }

  // The world that all tests share. The first test of the program creates the world. Returns null
  // if the creation of the world failed.
  static World* world();
  Agent& agent() { return *world()->agent; }
  const Host& pod_a() { return *world()->pod_a; }
  const Host& pod_b() { return *world()->pod_b; }
  const Host& remote_pod() { return *world()->remote_pod; }
  const Host& client() { return *world()->client; }
  const Host& outside() { return *world()->outside; }
  const Host& node() { return world()->node(); }
};

// Runs once per family.
class ServiceFamilyTest : public ServiceTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool v6() { return GetParam(); }
};

// Runs for a family and a protocol.
class ServiceFlowTest : public ServiceTest,
                        public ::testing::WithParamInterface<std::tuple<bool, Protocol>> {
 protected:
  static bool v6() { return std::get<0>(GetParam()); }
  static Protocol protocol() { return std::get<1>(GetParam()); }

  static Request To(const Address& address, uint16_t port = 80);
  // Returns a request with a short timeout, for tests that expect no answer.
  static Request InVain(const Address& address, uint16_t port = 80);
  Answer Ask(const Host& from, const Request& request);
  const std::string& At(const Host& host) { return host.address(v6()); }
};

std::string FamilyParamName(const ::testing::TestParamInfo<bool>& info);
std::string FlowParamName(const ::testing::TestParamInfo<std::tuple<bool, Protocol>>& info);

#define INSTANTIATE_FAMILIES(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::Bool(), FamilyParamName)
// The rules use the protocol only as a part of keys, except for rejects. So UDP with one family is
// sufficient for most suites.
#define INSTANTIATE_FLOWS(suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(                                                                  \
      , suite,                                                                               \
      ::testing::Values(std::tuple(false, Protocol::kTcp), std::tuple(true, Protocol::kTcp), \
                        std::tuple(true, Protocol::kUdp)),                                   \
      FlowParamName)
#define INSTANTIATE_ALL_FLOWS(suite)                                                               \
  INSTANTIATE_TEST_SUITE_P(, suite,                                                                \
                           ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(kProtocols)), \
                           FlowParamName)

// Assertions on the result of an attempt, in the terminology of docs/specification.md.
::testing::AssertionResult AnsweredBy(const Answer& answer, const std::string& server,
                                      const std::string& seen_source);
// Succeeds if svcmap's rules have rejected the packet (S-100).
::testing::AssertionResult Rejected(const Answer& answer);
// Succeeds if the node dropped the packet or the sink discarded it.
::testing::AssertionResult NoAnswer(const Answer& answer);

#define EXPECT_ANSWERED_BY(answer, server, seen) EXPECT_TRUE(AnsweredBy(answer, server, seen))
#define EXPECT_REJECTED(answer) EXPECT_TRUE(Rejected(answer))
#define EXPECT_NO_ANSWER(answer) EXPECT_TRUE(NoAnswer(answer))

// Returns `nft list ruleset` with sorted elements, one per line. The kernel lists elements in hash
// order, which differs between namespaces.
absl::StatusOr<std::string> SortedRuleset(const NetNs& netns);

// Loads `script` into an empty namespace and returns its SortedRuleset.
absl::StatusOr<std::string> SortedRulesetOf(const std::string& script);

// Waits until the kernel's sets and maps, except for the marker, equal the applied state in the
// agent's dump.
void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns);

}  // namespace svcmap::testing
