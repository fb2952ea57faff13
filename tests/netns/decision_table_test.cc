// Tests of the decision table and of the packet flows that docs/specification.md lists, which
// contain the answering endpoints and the source address for each kind of destination, policy and
// source. One test per row and family.
#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

const Objects kCluster = {ExternalWeb("shop/web", kV)};
const Objects kLocal = {ExternalWeb("shop/web", kV).ExternalPolicy("Local")};
const Objects kInternalLocal = {ExternalWeb("shop/web", kV).InternalPolicy("Local")};
const Objects kBothLocal = {
    ExternalWeb("shop/web", kV).InternalPolicy("Local").ExternalPolicy("Local")};

const Objects kExternalIpOfNode = {Web("shop/web", kV)
                                       .ExternalIp(kNodeSecondV4)
                                       .ExternalIp(kNodeSecondV6)
                                       .ExternalPolicy("Local")};

Objects OfMode(const std::string& mode) {
  return {Web("shop/web", kV)
              .LoadBalancerIpWithMode(kLoadBalancerIp.v4, mode)
              .LoadBalancerIpWithMode(kLoadBalancerIp.v6, mode)};
}

const v1::Object kNodeInZa = ANode(kAgentNode).InternalIp(kNodeV4).InternalIp(kNodeV6).Zone("za");

const Names kAll = {"P", "N", "X"};

class DecisionTable : public FlowRowTest {};

TEST_P(DecisionTable, Row) { Check(); }

INSTANTIATE_ROWS(
    DecisionTable,
    std::vector<Row>{
        {"S74_S78_S155_S169_S170_S175_S176_S177_S190", "PolicyCluster", kCluster, "L1 R1",
         Each({"P"}, {"V:80"}, "L1,R1 -") + Each({"N", "X"}, {"V:80"}, "L1,R1 m") +
             Each(kAll, kExternal, "L1,R1 m")},
        {"S75_S89_S178_S179", "InternalLocal", kInternalLocal, "L1 L2 R1",
         Each({"P"}, {"V:80"}, "L1,L2 -") + Each({"N", "X"}, {"V:80"}, "L1,L2 m") +
             Each(kAll, kExternal, "L1,L2,R1 m")},
        // The rule for the dropped port precedes the rule for other ports (S-104).
        {"S76_S82_S89_S104_S180", "InternalLocalWithRemoteEndpointsOnly", kInternalLocal, "R1 R2",
         Each(kAll, {"V:80"}, "DROP") + Each(kAll, {"V:81"}, "REJECT") +
             Each(kAll, kExternal, "R1,R2 m")},
        {"S79_S89_S173_S174", "ExternalLocal", kLocal, "L1 R1",
         Each({"P"}, kExternal, "L1,R1 -") + Each({"N"}, kExternal, "L1,R1 m") +
             Each({"X"}, kExternal, "L1 -") + Each({"P"}, {"V:80"}, "L1,R1 -") +
             Each({"N", "X"}, {"V:80"}, "L1,R1 m")},
        {"S80_S89", "ExternalLocalWithRemoteEndpointsOnly", kLocal, "R1 R2",
         Each({"P"}, kExternal, "R1,R2 -") + Each({"N"}, kExternal, "R1,R2 m") +
             Each({"X"}, kExternal, "DROP") + Each({"P"}, {"V:80"}, "R1,R2 -") +
             Each({"N", "X"}, {"V:80"}, "R1,R2 m")},
        {"S77_S81_S82_S152_S153_S154", "WithoutEndpoints", kCluster, "",
         Each(kAll, Names{"V:80", "V:81"} + kExternal, "REJECT")},
        {"S46_S77_S81_S86_S185_S189", "LocalWithoutServingEndpoints", kBothLocal,
         "L1:x L2:tx R1:x R2:tx",
         Each(kAll, Names{"V:80"} + kExternal, "REJECT") +
             Each({"P", "X"}, {"N2:NP"}, "untouched")},
        {"S82", "OtherPortOfAClusterIp", kBothLocal, "L1",
         Each(kAll, {"V:81", "V:81/udp", "V:81/sctp", "V:8080"}, "REJECT")},
        {"S161",
         "PortOfAnotherService",
         {Web("shop/web", kV).Port("https", 443),
          AService("shop/other").ClusterIps(kW.v4, kW.v6).Port("tcp", 80)},
         "L1 R1",
         {{"P -> W:443", "REJECT"}}},
        {"S83_S162",
         "UnallocatedClusterIp",
         {Web("shop/web", kW)},
         "L1 R1",
         Each(kAll, {"V:80", "V:80/udp"}, "DROP") + Flows{{"P -> FREE:80", "DROP"}}},
        {"S84_S86_S108_S143_S171", "OtherPortsAndAddresses", kLocal, "L1 R1",
         Each(kAll, {"EIP:81", "VIP:81", "EIP:81/udp"}, "untouched") +
             Each({"P", "X"}, {"N2:NP"}, "untouched")},
        {"S85",
         "OtherPortOfTheNode",
         {Web("shop/web", kV).Port("more", 81).NodePort(kNodePort + 1)},
         "L1",
         Each(kAll, {"N:NP"}, "untouched")},
        {"S88_S190", "ModeProxy", OfMode("Proxy"), "L1", Each(kAll, {"VIP:80"}, "untouched")},
        {"S190", "ModeVip", OfMode("VIP"), "L1", {{"X -> VIP:80", "L1 m"}}},
        {"S37_S89_S93", "BothPoliciesLocal", kBothLocal, "L1 L2 R1",
         Each({"P"}, {"V:80"}, "L1,L2 -") + Each({"N", "X"}, {"V:80"}, "L1,L2 m") +
             Each({"P"}, kExternal, "L1,L2,R1 -") + Each({"N"}, kExternal, "L1,L2,R1 m") +
             Each({"X"}, kExternal, "L1,L2 -")},
        {"S89_S103", "BothPoliciesLocalWithRemoteEndpointsOnly", kBothLocal, "R1 R2",
         Each(kAll, {"V:80"}, "DROP") + Each({"P"}, kExternal, "R1,R2 -") +
             Each({"N"}, kExternal, "R1,R2 m") + Each({"X"}, kExternal, "DROP")},
        // externalTrafficPolicy applies only to external addresses (S-10).
        {"S10",
         "TheExternalPolicyOfAClusterIpServiceWithExternalIps",
         {Web("shop/web", kV)
              .ExternalIp(kExternalIp.v4)
              .ExternalIp(kExternalIp.v6)
              .ExternalPolicy("Local")},
         "L1 R1",
         Each({"P"}, {"EIP:80"}, "L1,R1 -") + Each({"N"}, {"EIP:80"}, "L1,R1 m") +
             Each({"X"}, {"EIP:80"}, "L1 -")},
        // Packets to an address of the node itself pass the input hook.
        {"S102", "ExternalIpOfTheNodeWithoutEndpoints", kExternalIpOfNode, "",
         Each(kAll, {"N2:80"}, "REJECT")},
        {"S102_S115",
         "ExternalIpOfTheNodeWithRemoteEndpointsOnly",
         kExternalIpOfNode,
         "R1",
         {{"X -> N2:80", "DROP"}, {"P -> N2:80", "R1 -"}, {"N -> N2:80", "R1 m"}}},
        // Tests hairpin connections on every path that keeps the source address (S-97).
        {"S97_S156", "Hairpin", kLocal, "L1",
         Each({"L1"}, {"V:80", "EIP:80", "VIP:80", "N:NP"}, "L1 m")},
        {"S97", "HairpinInternalLocal", kInternalLocal, "L1 R1", Each({"L1"}, {"V:80"}, "L1 m")},
        {"S97", "NoHairpinBetweenTwoPodsOfTheNode", kBothLocal, "L2",
         Each({"L1"}, {"V:80", "EIP:80", "VIP:80", "N:NP"}, "L2 -")},
        // The cluster endpoint set contains L1, and the local endpoint set contains L1 and L2. A
        // pod of another node is also treated as a pod.
        {"S92",
         "PodElsewhere",
         {ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kNodeInZa},
         "L1@za L2@zb",
         Each({"Q"}, {"V:80", "EIP:80", "VIP:80", "N:NP"}, "L1 -") +
             Each({"X"}, kExternal, "L1,L2 -")},
    });

// Tests of endpoint selection with terminating endpoints and topology hints. endpoints_test.cc
// tests all cases.
class EndpointChoice : public FlowRowTest {};

TEST_P(EndpointChoice, Row) { Check(); }

INSTANTIATE_ROWS(EndpointChoice,
                 std::vector<Row>{
                     {"S34_S43_S183", "TerminatingLocalEndpointsWhileRemoteOnesAreReady",
                      kBothLocal, "L1:st L2:st L3:tx R1",
                      Each({"P"}, {"V:80"}, "L1,L2 -") + Each({"X"}, {"V:80"}, "L1,L2 m") +
                          Each({"P"}, {"EIP:80"}, "R1 -") + Each({"N"}, {"VIP:80"}, "R1 m") +
                          Each({"X"}, {"EIP:80"}, "L1,L2 -")},
                     {"S42_S182_S186", "ReadyOnesAreEnough", kLocal, "L1 L2 L3:st L4:tx R1 R2:st",
                      Each({"P"}, {"V:80"}, "L1,L2,R1 -") + Each({"N"}, {"VIP:80"}, "L1,L2,R1 m") +
                          Each({"X"}, {"VIP:80"}, "L1,L2 -")},
                     {"S44", "OnlyTerminatingOnes", kBothLocal, "L1:st R1:st",
                      Each({"X"}, {"V:80"}, "L1 m") + Each({"N"}, {"VIP:80"}, "L1,R1 m")},
                     {"S45_S184", "OnlyTerminatingOnesElsewhere", kBothLocal, "R1:st",
                      Each({"P"}, {"V:80"}, "DROP") + Each({"P"}, {"VIP:80"}, "R1 -") +
                          Each({"N"}, {"VIP:80"}, "R1 m") + Each({"X"}, {"VIP:80"}, "DROP")},
                     {"S47_S188", "OnlyARemoteTerminatingOneServes", kCluster, "L1:x R1:st",
                      Each({"P"}, {"V:80"}, "R1 -") + Each({"X"}, {"EIP:80"}, "R1 m")},
                     {"S187", "ClusterTerminatingOnly", kCluster, "L1:st L2:st R1:st R2:tx",
                      Each({"P"}, {"V:80"}, "L1,L2,R1 -") + Each({"X"}, {"VIP:80"}, "L1,L2,R1 m")},
                     {"S52",
                      "SameZone",
                      {ExternalWeb("shop/web", kV), kNodeInZa},
                      "L1@za L2@zb R1@zb R2@za",
                      Each({"P"}, {"V:80"}, "L1,R2 -") + Each({"X"}, {"EIP:80"}, "L1,R2 m")},
                     {"S58",
                      "SameNode",
                      {Web("shop/web", kV), kNodeInZa},
                      "L1@za%n1 L2@zb%n2 R1@zb%n3 R2@za%n4",
                      Each({"P"}, {"V:80"}, "L1 -")},
                     {"S61",
                      "HintsAndTheExternalPolicyLocal",
                      {ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kNodeInZa},
                      "L1@za L2@zb R1@za R2@zb",
                      Each({"P"}, {"V:80", "N:NP"}, "L1,R1 -") + Each({"X"}, {"N:NP"}, "L1,L2 -")},
                     {"S62",
                      "HintsAndTheInternalPolicyLocal",
                      {ExternalWeb("shop/web", kV).InternalPolicy("Local"), kNodeInZa},
                      "L1@za L2@zb R1@zc R2@za",
                      Each({"P"}, {"V:80"}, "L1,L2 -") + Each({"X"}, {"N:NP"}, "L1,R2 m")},
                 });

// Tests that need several or unusual Services.
using DecisionTest = FlowFamilyTest;
INSTANTIATE_FAMILIES(DecisionTest);

// The rules for clusterIPs also apply to packets that were translated to a clusterIP. Translated
// connections are not rejected with a TCP reset (S-100).
TEST_P(DecisionTest, S98_S100_AnEndpointThatIsAClusterIpIsRejected) {
  ASSERT_OK(agent().Apply({Web("shop/web", kV), Web("shop/next", kW),
                           ASlice("shop/web").Endpoint(kW.in(v6())).Port("tcp", 80)}));
  ASSERT_OK(agent().Apply(Slices(*world(), "shop/next", "L1")));
  Expect({"P -> W:80", "L1 -"});
  for (const char* from : {"P", "N", "X"}) Expect({absl::StrCat(from, " -> V:80"), "ICMP"});
}

// The verdict for a port without local endpoints does not apply to translated connections, even if
// the connection's endpoint has that port.
TEST_P(DecisionTest, S103_AShortCircuitDoesNotMeetTheVerdictOfItsPort) {
  ASlice slice("shop/web");
  slice.Endpoint(remote_pod().address(v6()), "n2").Port("tcp", kPodPort);
  AService service("shop/web");
  service.ClusterIps(kV.v4, kV.v6)
      .Port("tcp", kPodPort)
      .NodePort(kNodePort)
      .ExternalIp(kExternalIp.v4)
      .ExternalIp(kExternalIp.v6)
      .ExternalPolicy("Local");
  ASSERT_OK(agent().Apply({service, slice}));
  Expect({"P -> EIP:8080", "R1 -"});
  Expect({"N -> EIP:8080", "R1 m"});
  Expect({"P -> N:NP", "R1 -"});
  Expect({"X -> EIP:8080", "DROP"});
  Expect({"X -> N:NP", "DROP"});
}

// Policy Local of a Service applies only to connections to this Service, not to connections that
// another Service has translated to the same address and port.
TEST_P(DecisionTest, S98_S103_PolicyLocalDoesNotApplyToTranslatedConnections) {
  const auto slice = [&](const std::string& name, const Address& endpoint) {
    return ASlice(name).Endpoint(endpoint.in(v6())).Port("tcp", 80);
  };
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kV), slice("shop/web", kExternalIp),
                                  Web("shop/chained", ClusterIp(97)), slice("shop/chained", kW),
                                  Web("shop/next", kW)
                                      .InternalPolicy("Local")
                                      .ExternalPolicy("Local")
                                      .ExternalIp(kExternalIp.in(v6()))} +
                          Slices(*world(), "shop/next", "R1")));
  Expect({"X -> EIP:80", "DROP"});
  Expect({"P -> V:80", "untouched"});  // The host outside the cluster has the external IP.
  Expect({"P -> W:80", "DROP"});
  Expect({"P -> FREE:80", "ICMP"});
}

// The LoadBalancer IP is an address of the node, so packets from this address count as packets from
// the node.
TEST_P(DecisionTest, S72_ALoadBalancerIpThatTheNodeHasIsTheNode) {
  ASSERT_OK(ChangeNodeAddress("add", kLoadBalancerIp.in(v6())));
  ASSERT_OK(agent().Apply(kLocal + Slices(*world(), "shop/web", "R1")));
  for (const char* to : {"V:80", "EIP:80", "VIP:80", "N:NP"}) {
    Expect({absl::StrCat("VIP -> ", to), "R1 m"});
  }
  ASSERT_OK(ChangeNodeAddress("del", kLoadBalancerIp.in(v6())));
}

// The node's address on a pod bridge is in the pods' address block, so this address counts as a pod
// address.
TEST_P(DecisionTest, S73_APodsAddressOfTheNodeIsAPods) {
  const Address bridge = {"10.244.1.1", "fd00:10:244:1::1"};
  ASSERT_OK(ChangeNodeAddress("add", bridge.in(v6())));
  ASSERT_OK(agent().Apply(kLocal + Slices(*world(), "shop/web", "L1")));
  const std::pair<Address, uint16_t> destinations[] = {
      {kV, 80}, {kExternalIp, 80}, {kLoadBalancerIp, 80}, {kNode, kNodePort}};
  for (const auto& [address, port] : destinations) {
    EXPECT_ANSWERED_BY(
        Ask(node().netns(),
            {.destination = address.in(v6()), .port = port, .source = bridge.in(v6())}),
        "pod-a", bridge.in(v6()));
  }
  ASSERT_OK(ChangeNodeAddress("del", bridge.in(v6())));
}

// Tests of the masquerade matrix, with three Services in three configurations. DecisionTable tests
// the default configuration. Each Service has a local and a remote endpoint. Service A has policy
// Cluster, Service B has externalTrafficPolicy Local, and Service C has internalTrafficPolicy
// Local. There is one test per row, configuration and family.

const Objects kA = {ExternalWeb("shop/web", kV)};
const Objects kB = {ExternalWeb("shop/web", kV).ExternalPolicy("Local")};
const Objects kC = {ExternalWeb("shop/web", kV).InternalPolicy("Local")};

enum Configuration { kNoDetector, kMasqueradeAll, kMasqueradeAllNoDetector };

std::vector<std::string> FlagsOf(Configuration configuration) {
  std::vector<std::string> flags;
  if (configuration != kMasqueradeAll) flags.insert(flags.end(), {"--cluster-cidr", ""});
  if (configuration != kNoDetector) flags.push_back("--masquerade-all");
  return flags;
}

// One row of the matrix. Cells are in the order of Configuration.
struct MatrixRow {
  const char* requirement;
  const char* what;
  const Objects& services;
  Names sources;
  Names destinations;
  const char* cells[3];
};

std::vector<Row> Column(Configuration configuration) {
  const Names kClusterIp = {"V:80"};
  const MatrixRow kRows[] = {
      {"S191", "PodToAClusterIp", kA, {"P"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S192", "PodToAExternal", kA, {"P"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
      {"S193", "OthersToAClusterIp", kA, {"N", "X"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S194", "OthersToAExternal", kA, {"N", "X"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
      {"S195", "PodToBClusterIp", kB, {"P"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S196", "PodToBExternal", kB, {"P"}, kExternal, {"L1 -", "L1,R1 -", "L1 -"}},
      {"S197", "OthersToBClusterIp", kB, {"N", "X"}, kClusterIp, {"L1,R1 -", "L1,R1 m", "L1,R1 m"}},
      {"S198", "NodeToBExternal", kB, {"N"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
      {"S199", "ClientToBExternal", kB, {"X"}, kExternal, {"L1 -", "L1 -", "L1 -"}},
      {"S200", "PodToCClusterIp", kC, {"P"}, kClusterIp, {"L1 -", "L1 m", "L1 m"}},
      {"S201", "OthersToCClusterIp", kC, {"N", "X"}, kClusterIp, {"L1 -", "L1 m", "L1 m"}},
      {"S202", "AllToCExternal", kC, {"P", "N", "X"}, kExternal, {"L1,R1 m", "L1,R1 m", "L1,R1 m"}},
  };
  std::vector<Row> rows;
  for (const MatrixRow& row : kRows) {
    rows.push_back({row.requirement, row.what, row.services, "L1 R1",
                    Each(row.sources, row.destinations, row.cells[configuration])});
  }
  return rows;
}

// Hairpin connections are masqueraded in every configuration.
Row HairpinRow(const char* requirement) {
  return {requirement, "Hairpin", kA, "L1", Each({"L1"}, {"V:80", "VIP:80", "N:NP"}, "L1 m")};
}

template <Configuration kConfiguration>
class Matrix : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override { return FlagsOf(kConfiguration); }
};

using MatrixNoDetector = Matrix<kNoDetector>;
using MatrixMasqueradeAll = Matrix<kMasqueradeAll>;
using MatrixMasqueradeAllNoDetector = Matrix<kMasqueradeAllNoDetector>;

TEST_P(MatrixNoDetector, Row) { Check(); }
TEST_P(MatrixMasqueradeAll, Row) { Check(); }
TEST_P(MatrixMasqueradeAllNoDetector, Row) { Check(); }

INSTANTIATE_ROWS(MatrixNoDetector,
                 Column(kNoDetector) +
                     std::vector<Row>{
                         HairpinRow("S71_S91"),
                         // Without pod detection, svcmapd treats a pod like any
                         // client.
                         {"S68_S91", "LocalWithRemoteEndpointsOnly", kB, "R1 R2",
                          Each({"P", "X"}, kExternal, "DROP") + Each({"N"}, kExternal, "R1,R2 m") +
                              Each({"P", "N", "X"}, {"V:80"}, "R1,R2 -")}});
INSTANTIATE_ROWS(MatrixMasqueradeAll,
                 Column(kMasqueradeAll) + std::vector<Row>{HairpinRow("S90"),
                                                           {"S90", "PodElsewhere", kB, "L1 R1",
                                                            Each({"Q"}, {"V:80"}, "L1,R1 m")}});
INSTANTIATE_ROWS(MatrixMasqueradeAllNoDetector,
                 Column(kMasqueradeAllNoDetector) + std::vector<Row>{HairpinRow("S90_S91")});

// Tests of the detection of local pods by address, by the node's podCIDRs and by input interface.
// Each local host has a veth. Packets from other nodes arrive on the device "remote".

const v1::Object kNodeWithPods = ANode(kAgentNode)
                                     .InternalIp(kNodeV4)
                                     .InternalIp(kNodeV6)
                                     .Zone("za")
                                     .PodCidr(kPodCidrV4)
                                     .PodCidr(kPodCidrV6);
const Objects kBoth = {ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kNodeWithPods};

// The cluster endpoint set contains L1, and the local endpoint set contains L1 and L2. Pods use the
// cluster endpoint set, and other clients use the local endpoint set.
constexpr char kEndpoints[] = "L1@za L2@zb";

// Expected results for a source that counts as a pod, another source, and the node.
Flows Pod(const std::string& source) {
  return Each({source}, {"V:80"}, "L1 -") + Each({source}, kExternal, "L1 -");
}
Flows NoPod(const std::string& source) {
  return Each({source}, {"V:80"}, "L1 m") + Each({source}, kExternal, "L1,L2 -");
}
Flows OfNode() { return Each({"N"}, {"V:80"}, "L1 m") + Each({"N"}, kExternal, "L1 m"); }

class DetectClusterCidr : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override { return {"--detect-local-mode", "ClusterCIDR"}; }
};
TEST_P(DetectClusterCidr, Row) { Check(); }
INSTANTIATE_ROWS(DetectClusterCidr, std::vector<Row>{
                                        {"S63_S64", "Pod", kBoth, kEndpoints, Pod("P")},
                                        {"S64_S92", "PodElsewhere", kBoth, kEndpoints, Pod("Q")},
                                        {"S64", "Client", kBoth, kEndpoints, NoPod("X")},
                                        {"S64", "Node", kBoth, kEndpoints, OfNode()},
                                    });

class DetectNodeCidr : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override { return {"--detect-local-mode", "NodeCIDR"}; }
};
TEST_P(DetectNodeCidr, Row) { Check(); }
INSTANTIATE_ROWS(DetectNodeCidr, std::vector<Row>{
                                     {"S63_S65", "Pod", kBoth, kEndpoints, Pod("P")},
                                     {"S65_S92", "PodElsewhere", kBoth, kEndpoints, NoPod("Q")},
                                     {"S65", "Client", kBoth, kEndpoints, NoPod("X")},
                                     {"S65", "Node", kBoth, kEndpoints, OfNode()},
                                 });

// The veth of pod P is configured as the bridge interface.
class DetectBridge : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override {
    return {"--detect-local-mode", "BridgeInterface", "--pod-bridge-interface",
            world()->cast.at("P")->device()};
  }
};
TEST_P(DetectBridge, Row) { Check(); }
INSTANTIATE_ROWS(DetectBridge, std::vector<Row>{
                                   {"S66", "Pod", kBoth, kEndpoints, Pod("P")},
                                   {"S66", "OtherDevice", kBoth, kEndpoints, NoPod("L3")},
                                   {"S66_S92", "PodElsewhere", kBoth, kEndpoints, NoPod("Q")},
                                   {"S66", "Client", kBoth, kEndpoints, NoPod("X")},
                                   {"S66_S70", "Node", kBoth, kEndpoints, OfNode()},
                               });

// All devices of pods and the device of the client start with "veth", so the client also counts as
// a pod.
class DetectPrefix : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override {
    return {"--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "vet"};
  }
};
TEST_P(DetectPrefix, Row) { Check(); }
INSTANTIATE_ROWS(DetectPrefix, std::vector<Row>{
                                   {"S67", "Pod", kBoth, kEndpoints, Pod("P")},
                                   {"S67", "OtherDeviceOfThePrefix", kBoth, kEndpoints, Pod("X")},
                                   {"S67_S92", "PodElsewhere", kBoth, kEndpoints, NoPod("Q")},
                                   {"S67_S70", "Node", kBoth, kEndpoints, OfNode()},
                               });

}  // namespace
}  // namespace svcmap::testing
