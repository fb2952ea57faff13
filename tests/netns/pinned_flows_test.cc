// Tests of several ports, of nodePorts with --nodeport-addresses, and of removed EndpointSlices.
#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

const Objects kNodePortOnly = [] {
  AService service("shop/web");
  service.ClusterIps(kV.v4, kV.v6);
  for (const Protocol protocol : kProtocols) {
    service.Port(ProtocolName(protocol), 80, protocol).NodePort(kNodePort);
  }
  return Objects{service};
}();

using PinnedFlowTest = FlowFamilyTest;
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

TEST_P(PinnedFlowTest, S181_TheSliceIsDeleted) {
  for (const char* policy : {"Cluster", "Local"}) {
    SCOPED_TRACE(policy);
    ASSERT_OK(agent().Apply(Objects{Web("shop/web", kV).InternalPolicy(policy)} +
                            Slices(*world(), "shop/web", "L1 R1")));
    ASSERT_OK(agent().Remove({SliceRef("shop/web-v4"), SliceRef("shop/web-v6")}));
    Expect({"P -> V:80", "REJECT"});
  }
}

// The configuration selects the addresses that accept nodePorts.
class NodePortBlocks : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override {
    return {"--nodeport-addresses", "192.168.77.0/24,198.18.7.0/24,fd00:77::/64,fd00:78::10/128"};
  }
};

TEST_P(NodePortBlocks, Row) { Check(); }

// Loopback addresses are not in the blocks.
INSTANTIATE_ROWS(NodePortBlocks, std::vector<Row>{
                                     {"S111_S142_S172", "AllBlocks", kNodePortOnly, "L1 R1",
                                      Each({"X", "N"}, {"N:NP", "N2:NP"}, "L1,R1 m") +
                                          Flows{{"N -> LO:NP", "untouched"}}},
                                     {"S102", "NoEndpoints", kNodePortOnly, "",
                                      Each({"X", "P", "N"}, {"N:NP", "N2:NP"}, "REJECT")},
                                 });

}  // namespace
}  // namespace svcmap::testing
