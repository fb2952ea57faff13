// Tests of the packet flows that docs/specification.md lists, one test per row and family. The
// addresses belong to the test network and have the same roles as in the specification.
#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

// ---- All kinds of addresses without endpoints; only a clusterIP ----

const Objects kFull = {ExternalWeb("shop/web", kV)};
const Objects kPlain = {Web("shop/web", kV)};

// ---- LoadBalancer with source ranges: the node's network and half of the clients' addresses ----

Objects Ranges() {
  AService service = ExternalWeb("shop/web", kV);
  service.LoadBalancerIp(kSecondLoadBalancerIp.v4).LoadBalancerIp(kSecondLoadBalancerIp.v6);
  for (const char* range : {"192.168.77.0/24", " 203.0.113.0/25", "198.18.7.0/24", "fd00:77::/64",
                            "fd00:78::/64", " 2001:db8:203::/121"}) {
    service.SourceRange(range);
  }
  return {service};
}

// ---- Policies ----

const Objects kNodePortOnly = [] {
  AService service("shop/web");
  service.ClusterIps(kV.v4, kV.v6);
  for (const Protocol protocol : kProtocols) {
    service.Port(ProtocolName(protocol), 80, protocol).NodePort(kNodePort);
  }
  return Objects{service};
}();
const Objects kExternalLocal = {ExternalWeb("shop/web", kV).ExternalPolicy("Local")};
const Objects kInternalLocal = {Web("shop/web", kV).InternalPolicy("Local")};

const Names kEverything = {"V:80", "EIP:80", "VIP:80", "N:NP"};

Objects OfMode(const std::string& mode) {
  return {Web("shop/web", kV)
              .LoadBalancerIpWithMode(kLoadBalancerIp.v4, mode)
              .LoadBalancerIpWithMode(kLoadBalancerIp.v6, mode)};
}

class PinnedFlows : public FlowRowTest {};

TEST_P(PinnedFlows, Row) { Check(); }

INSTANTIATE_ROWS(
    PinnedFlows,
    std::vector<Row>{
        {"S152", "NoEndpointsClusterIp", kFull, "", {{"P -> V:80", "REJECT"}}},
        {"S153",
         "NoEndpointsExternal",
         kFull,
         "",
         {{"X -> EIP:80", "REJECT"}, {"X -> VIP:80", "REJECT"}, {"P -> VIP:80", "REJECT"}}},
        {"S154",
         "NoEndpointsNodePort",
         kFull,
         "",
         {{"P -> N:NP", "REJECT"}, {"X -> N:NP", "REJECT"}}},
        {"S155", "ClusterIp", kPlain, "L1", {{"P -> V:80", "L1 -"}, {"L2 -> V:80", "L1 -"}}},
        {"S156", "Hairpin", kPlain, "L1", {{"L1 -> V:80", "L1 m"}}},
        {"S160",
         "OtherProtocolOfAPort",
         {AService("shop/web").ClusterIps(kV.v4, kV.v6).Port("tcp", 80)},
         "L1 R1",
         {{"P -> V:80", "L1,R1 -"}, {"P -> V:80/udp", "REJECT"}}},
        {"S161",
         "PortOfAnotherService",
         {Web("shop/web", kV).Port("https", 443),
          AService("shop/other").ClusterIps(kW.v4, kW.v6).Port("tcp", 80)},
         "L1 R1",
         {{"P -> W:443", "REJECT"}}},
        {"S162", "Unallocated", kPlain, "L1 R1", {{"P -> FREE:80", "DROP"}}},

        {"S163", "RangesClusterIp", Ranges(), "L1", {{"P -> V:80", "L1 -"}}},
        {"S164",
         "RangesAreNotForNodePorts",
         Ranges(),
         "L1",
         {{"X -> N:NP", "L1 m"}, {"B -> N:NP", "L1 m"}}},
        {"S165", "RangesAllowed", Ranges(), "L1", Each({"X"}, {"VIP:80", "VIP2:80"}, "L1 m")},
        {"S166", "RangesNotAllowed", Ranges(), "L1",
         Each({"B", "P"}, {"VIP:80", "VIP2:80"}, "DROP")},
        {"S167", "RangesNode", Ranges(), "L1", Each({"N"}, {"VIP:80", "VIP2:80"}, "L1 m")},

        {"S169", "NodePortServiceClusterIp", kNodePortOnly, "L1 R1", {{"P -> V:80", "L1,R1 -"}}},
        {"S170", "NodePort", kNodePortOnly, "L1 R1", Each({"X", "N"}, {"N:NP"}, "L1,R1 m")},
        {"S108_S143_S171",
         "NodePortOfTheSecondAddress",
         kNodePortOnly,
         "L1 R1",
         {{"X -> N2:NP", "untouched"}}},

        {"S173", "ExternalLocalFromAPod", kExternalLocal, "L1 R1",
         Each({"P"}, kEverything, "L1,R1 -")},
        {"S174", "ExternalLocalFromAClient", kExternalLocal, "L1 R1",
         Each({"X"}, kExternal, "L1 -")},
        {"S175", "ExternalClusterClusterIp", kFull, "L1 R1", {{"P -> V:80", "L1,R1 -"}}},
        {"S176", "ExternalCluster", kFull, "L1 R1", Each({"P", "X"}, kExternal, "L1,R1 m")},

        {"S177", "InternalCluster", kPlain, "L1 R1 R2", {{"P -> V:80", "L1,R1,R2 -"}}},
        {"S178", "InternalLocalOneLocal", kInternalLocal, "L1 R1 R2", {{"P -> V:80", "L1 -"}}},
        {"S179", "InternalLocalTwoLocal", kInternalLocal, "L1 L2 R1", {{"P -> V:80", "L1,L2 -"}}},
        {"S180", "InternalLocalNoneLocal", kInternalLocal, "R1 R2", {{"P -> V:80", "DROP"}}},

        {"S182",
         "LocalReadyAndTerminating",
         kExternalLocal,
         "L1 L2 L3:st L4:tx R1",
         {{"P -> V:80", "L1,L2,R1 -"}, {"X -> VIP:80", "L1,L2 -"}}},
        {"S183",
         "LocalTerminatingOnly",
         kExternalLocal,
         "L1:st L2:st L3:tx R1",
         {{"P -> V:80", "R1 -"}, {"X -> VIP:80", "L1,L2 -"}}},
        {"S184",
         "RemoteTerminatingOnly",
         kExternalLocal,
         "R1:st",
         {{"P -> V:80", "R1 -"}, {"X -> VIP:80", "DROP"}}},
        {"S185",
         "NoneServes",
         kExternalLocal,
         "L1:tx R1:tx",
         {{"P -> V:80", "REJECT"}, {"X -> VIP:80", "REJECT"}}},
        {"S186",
         "ClusterReadyAndTerminating",
         kFull,
         "L1 L2 R1 R2:st L3:tx",
         {{"P -> V:80", "L1,L2,R1 -"}, {"X -> VIP:80", "L1,L2,R1 m"}}},
        {"S187",
         "ClusterTerminatingOnly",
         kFull,
         "L1:st L2:st R1:st R2:tx",
         {{"P -> V:80", "L1,L2,R1 -"}, {"X -> VIP:80", "L1,L2,R1 m"}}},
        {"S188",
         "ClusterRemoteTerminatingOnly",
         kFull,
         "R1:st",
         {{"P -> V:80", "R1 -"}, {"X -> VIP:80", "R1 m"}}},
        {"S189",
         "ClusterNoneServes",
         kFull,
         "L1:tx R1:x",
         {{"P -> V:80", "REJECT"}, {"X -> VIP:80", "REJECT"}}},
        {"S190", "ModeProxy", OfMode("Proxy"), "L1", {{"X -> VIP:80", "untouched"}}},
        {"S190", "ModeVip", OfMode("VIP"), "L1", {{"X -> VIP:80", "L1 m"}}},
        {"S190", "ModeUnset", kFull, "L1", {{"X -> VIP:80", "L1 m"}}},
    });

class PinnedFlowTest : public FlowTest, public ::testing::WithParamInterface<bool> {
 protected:
  static bool v6() { return GetParam(); }
  void Expect(const Flow& flow) { FlowTest::Expect(flow, v6()); }
};
INSTANTIATE_FAMILIES(PinnedFlowTest);

// Tests two endpoints of a Service with five ports. The name of each server contains its port.
TEST_P(PinnedFlowTest, S157_S158_S159_EachPortHasItsOwnTarget) {
  const struct {
    const char* name;
    int port;
    Protocol protocol;
    int target;
  } ports[] = {{"http", 80, Protocol::kTcp, 9080},
               {"https", 443, Protocol::kTcp, 9443},
               {"dns-udp", 53, Protocol::kUdp, 53},
               {"dns-tcp", 53, Protocol::kTcp, 5353},
               {"dns-sctp", 53, Protocol::kSctp, 53}};
  AService service("shop/web");
  service.ClusterIps(kV.v4, kV.v6);
  ASlice slice("shop/web");
  for (const char* letters : {"L1", "R1"}) {
    slice.Endpoint(world()->cast.at(letters)->address(v6()), letters[0] == 'L' ? kAgentNode : "n2");
  }
  for (const auto& port : ports) {
    service.Port(port.name, port.port, port.protocol);
    slice.Port(port.name, port.target, port.protocol);
  }
  std::vector<std::unique_ptr<EchoServer>> servers;
  for (const char* letters : {"L1", "R1"}) {
    const Host& pod = *world()->cast.at(letters);
    ASSERT_OK_AND_ASSIGN(auto server, EchoServer::Start(pod.netns()));
    for (const auto& port : ports) {
      ASSERT_OK(
          server->Listen({port.protocol, pod.address(v6()), static_cast<uint16_t>(port.target),
                          absl::StrCat(letters, ":", port.target)}));
    }
    servers.push_back(std::move(server));
  }
  ASSERT_OK(agent().Apply({service, slice}));
  Expect({"P -> V:80", "L1:9080,R1:9080 -"});
  Expect({"P -> V:443", "L1:9443,R1:9443 -"});
  Expect({"P -> V:53/tcp", "L1:5353,R1:5353 -"});
  Expect({"P -> V:53/udp", "L1:53,R1:53 -"});
  Expect({"P -> V:53/sctp", "L1:53,R1:53 -"});
}

// The LoadBalancer IP is an address of the node, as with load balancers that forward packets
// without translation.
TEST_P(PinnedFlowTest, S168_S118_TheLoadBalancerIpAsSource) {
  ASSERT_OK(ChangeNodeAddress("add", kLoadBalancerIp.in(v6())));
  ASSERT_OK(agent().Apply(Ranges() + Slices(*world(), "shop/web", "L1")));
  Expect({"VIP -> VIP:80", "L1 m"});
  Expect({"VIP -> VIP2:80", "L1 m"});
  // S-118: the packet is accepted only because a range contains the node's own address.
  ASSERT_OK(agent().Apply({ExternalWeb("shop/web", kV)
                               .LoadBalancerIp(kSecondLoadBalancerIp.v4)
                               .LoadBalancerIp(kSecondLoadBalancerIp.v6)
                               .SourceRange("203.0.113.0/25")
                               .SourceRange("2001:db8:203::/121")}));
  Expect({"VIP -> VIP:80", "DROP"});
  Expect({"VIP -> VIP2:80", "DROP"});
  Expect({"X -> VIP:80", "L1 m"});
  ASSERT_OK(ChangeNodeAddress("del", kLoadBalancerIp.in(v6())));
}

TEST_P(PinnedFlowTest, S181_TheSliceIsDeleted) {
  for (const char* endpoints : {"L1 R1 R2", "L1 L2 R1", "R1 R2"}) {
    for (const Objects& services : {kPlain, kInternalLocal}) {
      SCOPED_TRACE(endpoints);
      ASSERT_OK(agent().Apply(services + Slices(*world(), "shop/web", endpoints)));
      ASSERT_OK(agent().Remove({SliceRef("shop/web-v4"), SliceRef("shop/web-v6")}));
      Expect({"P -> V:80", "REJECT"});
    }
  }
}

// The configuration selects the addresses that accept nodePorts.
class NodePortBlocks : public ConfiguredRowTest {
 protected:
  static void SetUpTestSuite() {
    StartAgent(
        {"--nodeport-addresses", "192.168.77.0/24,198.18.7.0/24,fd00:77::/64,fd00:78::10/128"});
  }
};

TEST_P(NodePortBlocks, Row) { Check(); }

INSTANTIATE_ROWS(NodePortBlocks, std::vector<Row>{
                                     {"S172", "NodePortOfTheSecondAddress", kNodePortOnly, "L1 R1",
                                      Each({"X", "N"}, {"N:NP", "N2:NP"}, "L1,R1 m")},
                                     {"S111_S142",
                                      "LoopbackIsNotAmongThem",
                                      kNodePortOnly,
                                      "L1 R1",
                                      {{"N -> LO:NP", "untouched"}}},
                                     {"S102", "NoEndpoints", kNodePortOnly, "",
                                      Each({"X", "P", "N"}, {"N:NP", "N2:NP"}, "REJECT")},
                                 });

class NodePortsEverywhere : public ConfiguredRowTest {
 protected:
  static void SetUpTestSuite() { StartAgent({"--nodeport-addresses", "0.0.0.0/0,::/0"}); }
};

TEST_P(NodePortsEverywhere, Row) { Check(); }

INSTANTIATE_ROWS(
    NodePortsEverywhere,
    std::vector<Row>{
        {"S110_S112", "EveryAddressButLoopback", kNodePortOnly, "L1 R1",
         Each({"X", "N"}, {"N:NP", "N2:NP"}, "L1,R1 m") + Flows{{"N -> LO:NP", "untouched"}}},
        {"S102", "NoEndpoints", kNodePortOnly, "",
         Each({"X", "P", "N"}, {"N:NP", "N2:NP"}, "REJECT") + Flows{{"N -> LO:NP", "untouched"}}},
        {"S79", "ExternalLocal", kExternalLocal, "L1 R1",
         Each({"X"}, {"N:NP", "N2:NP"}, "L1 -") + Each({"P"}, {"N:NP", "N2:NP"}, "L1,R1 -")},
        {"S80", "ExternalLocalWithRemoteEndpointsOnly", kExternalLocal, "R1 R2",
         Each({"X"}, {"N:NP", "N2:NP"}, "DROP") + Each({"P"}, {"N:NP", "N2:NP"}, "R1,R2 -")},
    });

}  // namespace
}  // namespace svcmap::testing
