// Flows in the notation of docs/specification.md: source, destination and result.
//
//   With {"P -> V:80", "L1,R1 -"}, L1 and R1 answer and see the address of the pod P.
//   With {"X -> VIP:80", "L1 m"}, only L1 answers and sees the node's address (masqueraded).
//   {"B -> VIP:80", "DROP"} means that the node drops the packet.
//   Other results are "REJECT", "ICMP" (rejected with an ICMP error, also for TCP) and "untouched"
//   (as without a Service).
//
// Sources:
//
//   L1 to L4 on this node and R1 and R2 on another node are pods that may be endpoints.
//   P is a pod on this node that is not an endpoint.
//   Q is a pod on another node that is not an endpoint. Packets from Q have Q's own address.
//   N is a process on the node. The source address of N is the node's second address, or the node's
//     first address if the connection is masqueraded.
//   X and B are two addresses of a client.
//   VIP is the node with the LoadBalancer IP as its source address.
//
// Destinations have a port, and may have the suffix "/udp" or "/sctp". The port NP is kNodePort.
//
//   V is the clusterIP of Service shop/web, and W is the clusterIP of another Service. V is
//     kUnallocated. The host "outside" answers packets to V that the node neither translates nor
//     drops.
//   EIP, VIP and VIP2 are external addresses. The host "outside" answers untranslated packets to
//     EIP and VIP.
//   N, N2 and LO are the node's primary, second and loopback address. A process on the node listens
//     on TCP port kNodePort of each of these addresses.
//   FREE is an unallocated address in the service range.
#pragma once

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

// Returns slices of both families for Service `service`. Endpoints are L1 to R2, separated by
// spaces, each with optional suffixes in the order condition, zone, node. The condition ":st" marks
// a serving and terminating endpoint. ":x" marks an endpoint that is neither ready nor serving.
// ":tx" marks a terminating endpoint that is not serving. "@za" adds a hint for zone za. "%n1" adds
// a hint for node n1.
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

// Runs once per family.
class FlowFamilyTest : public FlowTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool v6() { return GetParam(); }
  void Expect(const Flow& flow) { FlowTest::Expect(flow, v6()); }
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

}  // namespace svcmap::testing
