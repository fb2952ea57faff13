// Flows, written as docs/specification.md writes them: who asks for what, and what comes of
// it.
//
//   {"P -> V:80", "L1,R1 -"}          a pod asks for the clusterIP: both answer, and see its
//   address
//   {"X -> VIP:80", "L1 m"}           only L1 answers, and sees the node's address (masqueraded)
//   {"B -> VIP:80", "DROP"}           also: "REJECT", and "untouched" (as if no Service were there)
//
// Who asks:
//   L1..L4 R1 R2  pods that may be endpoints, on this node and on another one
//   P, Q          pods that are not, on this node and (with its own source address) on another one
//   N             a process on the node, from its second address: masqueraded, it has the first
//   X, B          a client, and its second address
//   VIP           the node, from the LoadBalancer IP, if it has it
// What for, with a port (and "/udp" or "/sctp"; NP is kNodePort):
//   V W           the clusterIP of Service shop/web and another one. V is kUnallocated: when
//                 nothing takes care of its packets, "outside" answers
//   EIP VIP VIP2  external addresses; "outside" answers at the first two what is left untouched
//   N N2 LO       the node's primary, second and loopback address. A process of the node listens at
//                 kNodePort of each, TCP
//   FREE          an address of the service range that no Service has
#ifndef SVCMAP_TESTS_NETNS_FLOW_H_
#define SVCMAP_TESTS_NETNS_FLOW_H_

#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/netns/service_world.h"

namespace svcmap::testing {

inline const Address kV = kUnallocated;
inline const Address kW = ClusterIp(98);
inline const Address kSecondLoadBalancerIp = {"198.51.100.21", "2001:db8:51::21"};
inline const Address kOtherClient = ClientAddress(72);  // "B"

struct Flow {
  std::string from_to;
  std::string outcome;
};

using Flows = std::vector<Flow>;
using Names = std::vector<std::string>;
inline const Names kExternal = {"EIP:80", "VIP:80", "N:NP"};

// From each source to each destination, all with this outcome.
Flows Each(const Names& sources, const Names& destinations, const std::string& outcome);

// Slices of both families for Service `service`. Endpoints are L1..R2, separated by blanks, each
// with what is special about it, in this order:
//   ":st" serving and terminating, ":x" neither ready nor serving, ":tx" the same and terminating
//   "@za" a hint for zone za, "%n1" a hint for node n1
Objects Slices(const World& world, const std::string& service, const std::string& endpoints);

// What a row of a table has in common: a Service shop/web, its endpoints, and flows.
struct Row {
  std::string requirement;  // "S152", or several joined by "_"
  std::string what;         // "WithoutEndpoints"
  Objects services;
  std::string endpoints;  // As in Slices().
  Flows flows;
};
std::ostream& operator<<(std::ostream& out, const Row& row);

// Sends the flows.
class FlowTest : public ServiceTest {
 protected:
  void SetUp() override;

  // Applies the objects of a row and sends its flows, over one family.
  void Check(const Row& row, bool v6);

  // One flow: several connections where several may answer, until each has, and no others.
  void Expect(const Flow& flow, bool v6);

  // `ip addr add` or `del` of one more address of the node.
  absl::Status ChangeNodeAddress(const char* verb, const std::string& address);

  // The process of the node at kNodePort.
  std::unique_ptr<EchoServer> node_process_;
};

// One test per row and family, "S152_IPv4_WithoutEndpoints".
class FlowRowTest : public FlowTest, public ::testing::WithParamInterface<std::tuple<bool, Row>> {
 protected:
  void Check() { FlowTest::Check(std::get<1>(GetParam()), std::get<0>(GetParam())); }
};
std::string RowParamName(const ::testing::TestParamInfo<std::tuple<bool, Row>>& info);

#define INSTANTIATE_ROWS(suite, ...)                                                    \
  INSTANTIATE_TEST_SUITE_P(                                                             \
      , suite, ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(__VA_ARGS__)), \
      RowParamName)

// The same for a suite whose agent runs with other flags than usual: its SetUpTestSuite says which.
class ConfiguredRowTest : public FlowRowTest {
 protected:
  static void StartAgent(const std::vector<std::string>& flags);
  static void TearDownTestSuite() { StartAgent({}); }
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_NETNS_FLOW_H_
