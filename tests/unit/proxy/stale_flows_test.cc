#include "proxy/conntrack/stale_flows.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/conntrack/udp_ports.h"
#include "tests/unit/proxy/desired_world.h"
#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using Place = StaleFlows::Place;

// Tests flows to the Service from S-244 to S-249. The Service has UDP port 53 at a clusterIP, a
// load balancer IP and an external IP, and a nodePort on one node address. Endpoint L1 is serving,
// and endpoint L2 is not serving.
class StaleFlowsTest : public DesiredWorld {
 protected:
  StaleFlowsTest() {
    store_.Apply(AService("ns/dns")
                     .At("10.96.0.10")
                     .LoadBalancer("192.0.2.1")
                     .External("198.51.100.1")
                     .Port(53, "", Protocol::kUdp)
                     .NodePort(30053),
                 1);
    store_.Apply(ASlice("ns/dns-1", "ns/dns")
                     .Port(53, "", Protocol::kUdp)
                     .Local("10.0.0.1")
                     .Endpoint("10.0.0.2", kDown, true)
                     .Endpoint("10.0.0.3", kServingTerminating)
                     .Endpoint("10.0.0.4", kServingOnly),
                 1);
    node_.node_port_addresses = Ips({"172.16.0.1"});
    ports_ = MakeUdpPorts(store_.Find("ns/dns"), &Make("ns/dns").rows);
    for (const UdpPort& port : ports_) {
      for (const FlowDestination& destination : port.destinations) {
        flows_.Add(destination, Place::kCurrent, port.endpoints);
      }
    }
  }

  // Checks that the flows to all addresses of the Service are stale if `stale` is true, and not
  // stale otherwise.
  void ExpectEverywhere(bool stale, const std::string& answers) {
    for (const std::string at :
         {"10.96.0.10:53", "192.0.2.1:53", "198.51.100.1:53", "172.16.0.1:30053"}) {
      EXPECT_EQ(flows_.IsStale(Flow(at, answers)), stale) << at << " answered by " << answers;
    }
  }

  UdpPorts ports_;
  StaleFlows flows_;
};

TEST_F(StaleFlowsTest, S238_S241_S242_S244_S245_S246_FlowsToServingEndpointsAreKept) {
  ExpectEverywhere(false, "10.0.0.1:53");
  ExpectEverywhere(true, "10.0.0.1:5300");  // A previous port of the endpoint.
  ExpectEverywhere(true, "10.0.0.2:53");
  ExpectEverywhere(false, "10.0.0.3:53");  // 10.0.0.3 is a terminating endpoint.
  ExpectEverywhere(false, "10.0.0.4:53");  // 10.0.0.4 is an endpoint that is not ready.
  ExpectEverywhere(true, "10.0.0.9:53");
  ExpectEverywhere(true, "10.64.1.99:53");
}

TEST_F(StaleFlowsTest, S247AFlowThatWasNotTranslatedIsStale) {
  for (const std::string at :
       {"10.96.0.10:53", "192.0.2.1:53", "198.51.100.1:53", "172.16.0.1:30053"}) {
    EXPECT_TRUE(flows_.IsStale(Flow(at, at))) << at;
  }
}

// The conntrack entry of an untranslated packet was deleted, and a later reply created this flow in
// the opposite direction.
TEST_F(StaleFlowsTest, S247AFlowThatAnAnswerTurnedAroundIsStale) {
  const nft::Flow sent = Flow("10.96.0.10:53", "10.96.0.10:53");
  const nft::Flow answer{.original = sent.reply, .reply = sent.original};
  EXPECT_TRUE(flows_.IsStale(answer));
  nft::Flow other_port = answer;
  other_port.original.source.port = other_port.reply.destination.port = 54;
  EXPECT_FALSE(flows_.IsStale(other_port));
  nft::Flow other_zone = answer;
  other_zone.original.zone = other_zone.reply.zone = 7;
  EXPECT_FALSE(flows_.IsStale(other_zone));
  nft::Flow masqueraded = answer;
  masqueraded.reply.destination = End("192.0.2.1:53");
  EXPECT_FALSE(flows_.IsStale(masqueraded));
}

TEST_F(StaleFlowsTest, S248OtherPortsOfTheSameAddressesAreNotModified) {
  for (const std::string at : {"10.96.0.10:3000", "192.0.2.1:3000", "198.51.100.1:3000",
                               "172.16.0.1:3000", "172.16.0.1:53", "10.96.0.10:30053"}) {
    EXPECT_FALSE(flows_.IsStale(Flow(at, at))) << at;
    EXPECT_FALSE(flows_.IsStale(Flow(at, "10.0.0.2:53"))) << at;
    EXPECT_FALSE(flows_.IsStale(Flow(at, "10.64.1.99:53"))) << at;
  }
}

// svcmapd checks a nodePort only at the node's addresses. kube-proxy deletes flows to this port at
// any address (S-240).
TEST_F(StaleFlowsTest, S240TheNodePortCountsAtTheNodesAddressesOnly) {
  EXPECT_FALSE(flows_.IsStale(Flow("203.0.113.7:30053", "203.0.113.7:30053")));
  EXPECT_FALSE(flows_.IsStale(Flow("172.16.0.2:30053", "10.0.0.2:53")));
}

// svcmapd differs from kube-proxy, which ignores a port without serving endpoints, so that clients
// keep sending to a deleted pod.
TEST_F(StaleFlowsTest, S239WithoutServingEndpointsAllFlowsAreStale) {
  StaleFlows flows;
  const std::vector<EndpointAddress> none;
  flows.Add(End("10.96.0.10:53"), Place::kCurrent, none);
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:53", "10.0.0.1:53")));
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:53", "10.96.0.10:53")));
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.11:53", "10.0.0.1:53")));
}

TEST(FormerPlacesTest, S240OnlyFlowsThatLostTheirEndpointAreStale) {
  StaleFlows flows;
  const auto endpoints = Endpoints({"10.0.0.1:53"});
  const size_t number = flows.Add(End("192.0.2.1:53"), Place::kFormer, endpoints);
  EXPECT_TRUE(flows.IsStale(Flow("192.0.2.1:53", "10.0.0.2:53")));
  // The address now belongs to another Service.
  EXPECT_FALSE(flows.IsStale(Flow("192.0.2.1:53", "192.0.2.1:53")));
  EXPECT_FALSE(flows.Kept(number));
  EXPECT_FALSE(flows.IsStale(Flow("192.0.2.1:53", "10.0.0.1:53")));
  EXPECT_TRUE(flows.Kept(number));
}

TEST(FormerPlacesTest, S240AFlowStaysIfItHasAnEndpointOfAnyFormerService) {
  StaleFlows flows;
  const auto first = Endpoints({"10.0.0.1:53"}), second = Endpoints({"10.0.0.2:53"});
  flows.Add(End("192.0.2.1:53"), Place::kFormer, first);
  flows.Add(End("192.0.2.1:53"), Place::kFormer, second);
  EXPECT_FALSE(flows.IsStale(Flow("192.0.2.1:53", "10.0.0.1:53")));
  EXPECT_FALSE(flows.IsStale(Flow("192.0.2.1:53", "10.0.0.2:53")));
  EXPECT_TRUE(flows.IsStale(Flow("192.0.2.1:53", "10.0.0.3:53")));
}

TEST(RangesTest, AnEndpointRepliesFromTheDestinationPort) {
  StaleFlows flows;
  const auto endpoints = Endpoints({"10.0.0.1:7777"});
  const size_t number = flows.Add({End("10.96.0.10:1000"), 2000}, Place::kCurrent, endpoints);
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:1500", "10.0.0.1:7777")));
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:1500", "10.0.0.2:1500")));
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:1500", "10.96.0.10:1500"))) << "untranslated";
  EXPECT_FALSE(flows.Kept(number));
  for (const char* port : {"1000", "1500", "2000"}) {
    EXPECT_FALSE(
        flows.IsStale(Flow(std::string("10.96.0.10:") + port, std::string("10.0.0.1:") + port)));
  }
  EXPECT_TRUE(flows.Kept(number));
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.10:999", "10.0.0.2:999"))) << "outside the range";
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.10:2001", "10.0.0.2:2001"))) << "outside the range";
  const nft::Flow sent = Flow("10.96.0.10:1500", "10.96.0.10:1500");
  EXPECT_TRUE(flows.IsStale({.original = sent.reply, .reply = sent.original})) << "turned around";
}

TEST(RangesTest, FlowsToASinglePortBelongToIt) {
  StaleFlows flows;
  const auto of_range = Endpoints({"10.0.0.1:7777"}), of_port = Endpoints({"10.0.0.2:53"});
  flows.Add({End("10.96.0.10:1"), 65535}, Place::kCurrent, of_range);
  flows.Add(End("10.96.0.10:53"), Place::kCurrent, of_port);
  flows.Exclude(End("10.96.0.10:54"));  // A Service that this round does not cover.
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.10:53", "10.0.0.2:53")));
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:53", "10.0.0.1:53")));
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.10:54", "10.0.0.9:54")));
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:55", "10.0.0.9:55")));
}

// A virtual switch with a separate conntrack zone tracks pods' packets before translation.
TEST(ZonesTest, S241UntranslatedFlowsOfOtherZonesAreNotModified) {
  StaleFlows flows;
  const auto endpoints = Endpoints({"10.0.0.1:53"});
  flows.Add(End("10.96.0.10:53"), Place::kCurrent, endpoints);
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.10:53", "10.96.0.10:53", 7)));
  EXPECT_TRUE(flows.IsStale(Flow("10.96.0.10:53", "10.0.0.2:53", 7)));
  EXPECT_FALSE(flows.IsStale(Flow("10.96.0.10:53", "10.0.0.1:53", 7)));
}

TEST(OwnAddressTest, S242AnEndpointAtTheServicesOwnAddressIsOne) {
  StaleFlows flows;
  const auto endpoints = Endpoints({"172.16.0.1:53"});
  flows.Add(End("172.16.0.1:53"), Place::kCurrent, endpoints);
  EXPECT_FALSE(flows.IsStale(Flow("172.16.0.1:53", "172.16.0.1:53")));
}

}  // namespace
}  // namespace svcmap::proxy
