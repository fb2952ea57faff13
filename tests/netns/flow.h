// Flows in the notation of docs/specification.md: source, destination and result.
//
//   {"P -> V:80", "L1,R1 -"}  a pod connects to the clusterIP: L1 and R1 answer and see its address
//   {"X -> VIP:80", "L1 m"}   only L1 answers and sees the node's address (masqueraded)
//   {"B -> VIP:80", "DROP"}   other results: "REJECT" and "untouched" (as without a Service)
//
// Sources:
//   L1..L4 R1 R2  pods that may be endpoints, on this node and on another node
//   P, Q          pods that are not endpoints, on this node and (unmasqueraded) on another node
//   N             a process on the node, from the node's second address. If masqueraded, the source
//                 is the first address
//   X, B          a client, and its second address
//   VIP           the node, from the LoadBalancer IP, if the node has this address
//
// Destinations, with a port (and "/udp" or "/sctp"; NP is kNodePort):
//   V W           the clusterIP of Service shop/web and of another Service. V is kUnallocated: the
//                 host "outside" answers packets that the node neither translates nor drops
//   EIP VIP VIP2  external addresses. "outside" answers untranslated packets to the first two
//   N N2 LO       the node's primary, second and loopback address. A process of the node listens on
//                 kNodePort of each address, TCP
//   FREE          an unallocated address of the service range
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
inline const Address kOtherClient = ClientAddress(72);  // Address of the source B in flows.

struct Flow {
  std::string from_to;
  std::string outcome;
};

using Flows = std::vector<Flow>;
using Names = std::vector<std::string>;
inline const Names kExternal = {"EIP:80", "VIP:80", "N:NP"};

// Returns flows from each source to each destination, all with the same result.
Flows Each(const Names& sources, const Names& destinations, const std::string& outcome);

// Returns slices of both families for Service `service`. Endpoints are L1..R2, separated by spaces,
// each with optional suffixes in this order:
//   ":st" serving and terminating, ":x" neither ready nor serving, ":tx" terminating, not serving
//   "@za" a hint for zone za, "%n1" a hint for node n1
Objects Slices(const World& world, const std::string& service, const std::string& endpoints);

// A row of a test table: the Service shop/web, its endpoints, and flows.
struct Row {
  // Requirement, for example "S152", or several requirements joined by "_".
  std::string requirement;
  std::string what;  // Name of the case, for example "WithoutEndpoints".
  Objects services;
  std::string endpoints;  // Endpoints in the format that Slices() parses.
  Flows flows;
};
std::ostream& operator<<(std::ostream& out, const Row& row);

// Fixture that sends the flows of a row and checks the results.
class FlowTest : public ServiceTest {
 protected:
  void SetUp() override;

  // Applies the objects of a row and tests its flows over one family.
  void Check(const Row& row, bool v6);

  // Tests one flow. If several endpoints may answer, repeats the flow until each expected endpoint
  // has answered. Fails if any other endpoint answers.
  void Expect(const Flow& flow, bool v6);

  // Adds or deletes another address of the node.
  absl::Status ChangeNodeAddress(const char* verb, const std::string& address);

  // Answers as a process on the node that listens on kNodePort.
  std::unique_ptr<EchoServer> node_process_;
};

// One test per row and family, for example "S152_IPv4_WithoutEndpoints".
class FlowRowTest : public FlowTest, public ::testing::WithParamInterface<std::tuple<bool, Row>> {
 protected:
  void Check() { FlowTest::Check(std::get<1>(GetParam()), std::get<0>(GetParam())); }
};
std::string RowParamName(const ::testing::TestParamInfo<std::tuple<bool, Row>>& info);

#define INSTANTIATE_ROWS(suite, ...)                                                    \
  INSTANTIATE_TEST_SUITE_P(                                                             \
      , suite, ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(__VA_ARGS__)), \
      RowParamName)

// Base of suites whose SetUpTestSuite starts the agent with other flags.
class ConfiguredRowTest : public FlowRowTest {
 protected:
  static void StartAgent(const std::vector<std::string>& flags);
  static void TearDownTestSuite() { StartAgent({}); }
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_NETNS_FLOW_H_
