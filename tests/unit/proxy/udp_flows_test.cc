#include "proxy/conntrack/udp_flows.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/desired_world.h"
#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using Names = std::vector<std::string>;

UdpPorts Dns(const Names& destinations, const Names& endpoints, const std::string& name = "dns") {
  UdpPort port{.endpoints = Endpoints(endpoints)};
  for (const std::string& destination : destinations) {
    port.destinations.push_back(End(destination));
  }
  return {{{Family::kIpv4, name}, std::move(port)}};
}

UdpPorts Range(uint16_t first, uint16_t last, const Names& endpoints) {
  const FlowDestination range(End("10.96.0.1:" + std::to_string(first)), last);
  return {{{Family::kIpv4, "range"}, {{range}, Endpoints(endpoints)}}};
}

class UdpFlowsTest : public ::testing::Test {
 protected:
  // Runs a scan with the given tracked flows. The result is true for each stale flow.
  std::vector<bool> Round(const std::vector<nft::Flow>& tracked) {
    flows_.Start();
    std::vector<bool> stale;
    for (const nft::Flow& flow : tracked) stale.push_back(flows_.IsStale(flow));
    flows_.Finish();
    return stale;
  }
  void Settled(const std::string& service, const UdpPorts& ports) {
    flows_.Update(service, ports);
    Round({});
    EXPECT_FALSE(flows_.due());
  }

  UdpFlows flows_;
};

TEST_F(UdpFlowsTest, S237ServicesWithoutUdpAreNeverKept) {
  flows_.Update("ns/web", {});
  flows_.Update("ns/slices-only", Dns({}, {"10.0.0.1:53"}));
  EXPECT_FALSE(flows_.due());
  EXPECT_EQ(flows_.services(), 0u);
}

TEST_F(UdpFlowsTest, S237WhichChangesMakeAServiceDue) {
  const UdpPorts before = Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"});
  const struct {
    const char* name;
    UdpPorts after;
    bool due;
  } cases[] = {
      {"nothing", before, false},
      {"an endpoint joins", Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"}),
       false},
      {"an endpoint goes", Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}), true},
      {"an endpoint is replaced", Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.3:53"}), true},
      {"no endpoint is left (S-239)", Dns({"10.96.0.1:53"}, {}), true},
      {"an address comes (Service only)",
       Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"}), true},
      {"an address goes (Service only)", Dns({}, {"10.0.0.1:53", "10.0.0.2:53"}), true},
      {"everything goes", {}, true},
  };
  for (const auto& c : cases) {
    flows_ = UdpFlows();
    Settled("ns/dns", before);
    flows_.Update("ns/dns", c.after);
    EXPECT_EQ(flows_.due(), c.due) << c.name;
  }
  flows_ = UdpFlows();
  Settled("ns/dns", Dns({"10.96.0.1:53"}, {}));
  flows_.Update("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}));
  EXPECT_TRUE(flows_.due()) << "the first endpoint";
}

TEST_F(UdpFlowsTest, SinglePortsOfOtherServicesAreNoPartOfARange) {
  Settled("ns/dns", Dns({"10.96.0.1:53", "10.96.0.2:53"}, {"10.0.0.2:53"}));
  Settled("ns/ranged", Range(1, 65535, {"10.0.0.1:1"}));
  flows_.Update("ns/ranged", Range(1, 65535, {"10.0.0.9:1"}));
  EXPECT_TRUE(flows_.due());
  const std::vector<bool> first_kept = {false, true};
  EXPECT_EQ(Round({Flow("10.96.0.1:53", "10.0.0.2:53"), Flow("10.96.0.1:54", "10.0.0.1:54")}),
            first_kept);
  // A former range keeps the flows of its endpoints.
  flows_.Update("ns/ranged", {{{Family::kIpv4, "range"}, {{}, Endpoints({"10.0.0.9:1"})}}});
  EXPECT_EQ(Round({Flow("10.96.0.1:54", "10.0.0.9:54"), Flow("10.96.0.1:55", "10.0.0.1:55")}),
            first_kept);
}

TEST_F(UdpFlowsTest, AFormerSinglePortBelongsToTheRangeThatContainsIt) {
  Settled("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:5353"}));
  flows_.Update("ns/dns", Dns({}, {"10.0.0.1:5353"}));
  const nft::Flow former = Flow("10.96.0.1:53", "10.0.0.1:5353");
  EXPECT_EQ(Round({former}), std::vector{false});
  flows_.Update("ns/ranged", Range(50, 60, {"10.0.0.1:1"}));
  EXPECT_EQ(Round({former, Flow("10.96.0.1:53", "10.0.0.1:53")}), (std::vector{true, false}));
}

TEST_F(UdpFlowsTest, AnEndpointOfARangeRepliesFromTheDestinationPort) {
  Settled("ns/ranged", Range(1000, 2000, {"10.0.0.1:7777"}));
  const nft::Flow sent = Flow("10.96.0.1:1500", "10.96.0.1:1500");
  const struct {
    const char* destination;
    const char* answers;
    bool stale;
  } cases[] = {
      {"10.96.0.1:1500", "10.0.0.1:7777", true},  {"10.96.0.1:1500", "10.0.0.2:1500", true},
      {"10.96.0.1:1500", "10.96.0.1:1500", true}, {"10.96.0.1:1000", "10.0.0.1:1000", false},
      {"10.96.0.1:1500", "10.0.0.1:1500", false}, {"10.96.0.1:2000", "10.0.0.1:2000", false},
      {"10.96.0.1:999", "10.0.0.2:999", false},   {"10.96.0.1:2001", "10.0.0.2:2001", false},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(flows_.IsStale(Flow(c.destination, c.answers)), c.stale)
        << c.destination << " " << c.answers;
  }
  EXPECT_TRUE(flows_.IsStale({.original = sent.reply, .reply = sent.original})) << "turned around";
}

// The Service is deleted first, then its EndpointSlices and pods. The cleaner deletes the flows
// when the endpoints disappear.
TEST_F(UdpFlowsTest, S237FlowsOfADeletedServiceGoWithTheirEndpoints) {
  const nft::Flow flow = Flow("10.96.0.1:53", "10.0.0.1:53");
  Settled("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}));
  flows_.Update("ns/dns", Dns({}, {"10.0.0.1:53"}));
  EXPECT_EQ(Round({flow}), std::vector{false});
  EXPECT_EQ(flows_.services(), 1u);
  flows_.Update("ns/dns", {});
  EXPECT_EQ(Round({flow}), std::vector{true});
  EXPECT_EQ(flows_.services(), 0u);
}

TEST_F(UdpFlowsTest, S240FlowsToAFormerAddressGoWithTheirEndpoint) {
  const nft::Flow flow = Flow("192.0.2.1:53", "10.0.0.1:53");
  Settled("ns/dns", Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"}));
  flows_.Update("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"}));
  EXPECT_EQ(Round({flow}), std::vector{false});
  flows_.Update("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.2:53"}));
  EXPECT_EQ(Round({flow}), std::vector{true});
}

TEST_F(UdpFlowsTest, AFormerAddressWithoutFlowsIsForgotten) {
  Settled("ns/dns", Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53"}));
  Settled("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}));
  flows_.Update("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.2:53"}));
  EXPECT_EQ(Round({Flow("192.0.2.1:53", "10.0.0.1:53")}), std::vector{false});
}

TEST_F(UdpFlowsTest, AFormerAddressIsNotForgottenByARoundThatDidNotKnowIt) {
  flows_.Update("ns/dns", Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53"}));
  flows_.Start();
  flows_.Update("ns/dns", Dns({"10.96.0.1:53"}, {}));
  flows_.Finish();
  EXPECT_TRUE(flows_.due());
  EXPECT_EQ(Round({Flow("192.0.2.1:53", "10.0.0.1:53")}), std::vector{true});
}

// After an address moves to another Service, the previous Service must not cause the deletion of
// the current Service's flows.
TEST_F(UdpFlowsTest, S240AFormerAddressThatIsAnothersIsTheOthersBusiness) {
  const nft::Flow first = Flow("192.0.2.1:53", "10.0.0.1:53");
  const nft::Flow second = Flow("192.0.2.1:53", "10.0.0.2:53");
  Settled("ns/a", Dns({"192.0.2.1:53"}, {"10.0.0.1:53"}));
  flows_.Update("ns/a", Dns({}, {"10.0.0.1:53"}));
  EXPECT_EQ(Round({first}), std::vector{false});
  flows_.Update("ns/b", Dns({"192.0.2.1:53"}, {"10.0.0.2:53"}));
  EXPECT_EQ(Round({first, second}), (std::vector{true, false}));
  flows_.Update("ns/a", {});
  EXPECT_EQ(Round({second}), std::vector{false});
}

TEST_F(UdpFlowsTest, S240ARenamedPortKeepsItsFlows) {
  Settled("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}, "old"));
  flows_.Update("ns/dns", Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}, "new"));
  EXPECT_EQ(Round({Flow("10.96.0.1:53", "10.0.0.1:53"), Flow("10.96.0.1:53", "10.0.0.2:53")}),
            (std::vector{false, true}));
}

// Tests flows to the Service from S-244 to S-249. The Service has UDP port 53 at a clusterIP, a
// load balancer IP and an external IP, and a nodePort on one node address. Endpoint L1 is
// serving, and endpoint L2 is not serving.
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
    flows_.Update("ns/dns", MakeUdpPorts(store_.Find("ns/dns"), &Make("ns/dns").rows));
  }

  // Checks that the flows to all addresses of the Service are stale if `stale` is true, and not
  // stale otherwise.
  void ExpectEverywhere(bool stale, const std::string& answers) {
    for (const std::string at :
         {"10.96.0.10:53", "192.0.2.1:53", "198.51.100.1:53", "172.16.0.1:30053"}) {
      EXPECT_EQ(flows_.IsStale(Flow(at, answers)), stale) << at << " answered by " << answers;
    }
  }

  UdpFlows flows_;
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

// The conntrack entry of an untranslated packet was deleted, and a later reply created this flow
// in the opposite direction.
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
  // svcmapd checks a nodePort only at the node's addresses. kube-proxy deletes flows to this port
  // at any address (S-240).
  EXPECT_FALSE(flows_.IsStale(Flow("203.0.113.7:30053", "203.0.113.7:30053")));
  EXPECT_FALSE(flows_.IsStale(Flow("172.16.0.2:30053", "10.0.0.2:53")));
}

TEST_F(StaleFlowsTest, S240FlowsToAddressesOfAnOlderServiceAreNotModified) {
  store_.Apply(AService("ns/older")
                   .At("10.96.0.11")
                   .External("198.51.100.1")
                   .Port(53, "", Protocol::kUdp)
                   .Created(1),
               2);
  store_.Apply(AService("ns/younger")
                   .At("10.96.0.12")
                   .External("198.51.100.1")
                   .External("198.51.100.2")
                   .Port(53, "", Protocol::kUdp)
                   .Created(2),
               2);
  flows_ = UdpFlows();
  before_ = {};
  flows_.Update("ns/younger", MakeUdpPorts(store_.Find("ns/younger"), &Make("ns/younger").rows));
  EXPECT_FALSE(flows_.IsStale(Flow("198.51.100.1:53", "10.0.0.9:53")));
  EXPECT_TRUE(flows_.IsStale(Flow("198.51.100.2:53", "10.0.0.9:53")));
}

TEST_F(UdpFlowsTest, S239_S241_S242_FlowsOfAServiceAreStaleWithoutTheirEndpoint) {
  const struct {
    const char* name;
    Names destinations, endpoints;
    const char* to;
    const char* answers;
    uint16_t zone;
    bool stale;
  } cases[] = {
      // svcmapd differs from kube-proxy, which ignores a port without serving endpoints, so that
      // clients keep sending to a deleted pod.
      {"no endpoint (S-239)", {"10.96.0.10:53"}, {}, "10.96.0.10:53", "10.0.0.1:53", 0, true},
      {"not translated", {"10.96.0.10:53"}, {}, "10.96.0.10:53", "10.96.0.10:53", 0, true},
      {"another address", {"10.96.0.10:53"}, {}, "10.96.0.11:53", "10.0.0.1:53", 0, false},
      // A virtual switch with a separate conntrack zone tracks pods' packets before translation.
      {"zone, not translated (S-241)",
       {"10.96.0.10:53"},
       {"10.0.0.1:53"},
       "10.96.0.10:53",
       "10.96.0.10:53",
       7,
       false},
      {"zone, gone", {"10.96.0.10:53"}, {"10.0.0.1:53"}, "10.96.0.10:53", "10.0.0.2:53", 7, true},
      {"zone, endpoint",
       {"10.96.0.10:53"},
       {"10.0.0.1:53"},
       "10.96.0.10:53",
       "10.0.0.1:53",
       7,
       false},
      {"an endpoint at the Service's own address (S-242)",
       {"172.16.0.1:53"},
       {"172.16.0.1:53"},
       "172.16.0.1:53",
       "172.16.0.1:53",
       0,
       false},
  };
  for (const auto& c : cases) {
    flows_ = UdpFlows();
    Settled("ns/dns", Dns(c.destinations, c.endpoints));
    EXPECT_EQ(flows_.IsStale(Flow(c.to, c.answers, c.zone)), c.stale) << c.name;
  }
}

TEST_F(UdpFlowsTest, S240AFlowStaysIfItHasAnEndpointOfAnyFormerService) {
  Settled("ns/a", Dns({"192.0.2.1:53"}, {"10.0.0.1:53"}));
  Settled("ns/b", Dns({"192.0.2.1:53"}, {"10.0.0.2:53"}));
  flows_.Update("ns/a", Dns({}, {"10.0.0.1:53"}));
  flows_.Update("ns/b", Dns({}, {"10.0.0.2:53"}));
  EXPECT_EQ(Round({Flow("192.0.2.1:53", "10.0.0.1:53"), Flow("192.0.2.1:53", "10.0.0.2:53"),
                   Flow("192.0.2.1:53", "10.0.0.3:53"), Flow("192.0.2.1:53", "192.0.2.1:53")}),
            (std::vector{false, false, true, false}));
}

}  // namespace
}  // namespace svcmap::proxy
