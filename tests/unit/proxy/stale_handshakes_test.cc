#include "proxy/conntrack/stale_handshakes.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

class StaleHandshakesTest : public ::testing::Test {
 protected:
  StaleHandshakesTest() {
    node_.node_port_addresses = Ips({"192.0.2.1", "2001:db8::1"});
    Apply({AService("ns/web")
               .At("10.96.0.1")
               .At("fd00:96::1")
               .LoadBalancer("198.51.100.1")
               .Port(80, "http")
               .NodePort(30080)
               .Port(3868, "sctp", Protocol::kSctp),
           ASlice("ns/web-1", "ns/web")
               .Port(8080, "http")
               .Port(3868, "sctp", Protocol::kSctp)
               .Endpoint("10.0.0.1", kReady)
               .Endpoint("10.0.0.2", kDownTerminating),
           ASlice("ns/web-2", "ns/web").Port(8081, "http").Endpoint("10.0.0.3", kReady),
           ASlice("ns/web-6", "ns/web", Family::kIpv6)
               .Port(8080, "http")
               .Endpoint("fd01::1", kReady)});
  }
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, ++sequence_);
  }
  bool Stale(std::string_view destination, std::string_view endpoint,
             nft::TransportProtocol protocol = nft::TransportProtocol::kTcp, uint16_t zone = 0) {
    nft::Flow flow = Flow(destination, endpoint, zone);
    flow.protocol = protocol;
    flow.unreplied = true;
    const auto stale = FindStaleHandshakes({&flow, 1}, store_, node_);
    if (stale[0] && *stale[0] != kNoService) {
      EXPECT_EQ(stale[0], HashOfService(service_));
    }
    return stale[0].has_value();
  }

  Store store_;
  NodeFacts node_;
  uint64_t sequence_ = 0;
  std::string service_ = "ns/web";
};

TEST_F(StaleHandshakesTest, S242_S249_AHandshakeWithAnEndpointThatIsGoneIsStale) {
  constexpr auto kSctp = nft::TransportProtocol::kSctp;
  const struct {
    const char* name;
    const char* destination;
    const char* endpoint;
    bool stale;
    nft::TransportProtocol protocol = nft::TransportProtocol::kTcp;
  } cases[] = {
      {"endpoint", "10.96.0.1:80", "10.0.0.1:8080", false},
      {"IPv6 endpoint", "[fd00:96::1]:80", "[fd01::1]:8080", false},
      {"endpoint of another slice", "10.96.0.1:80", "10.0.0.3:8081", false},
      {"endpoint that is not serving", "10.96.0.1:80", "10.0.0.2:8080", false},
      {"gone", "10.96.0.1:80", "10.0.0.9:8080", true},
      {"gone, IPv6", "[fd00:96::1]:80", "[fd01::9]:8080", true},
      {"gone, load balancer IP", "198.51.100.1:80", "10.0.0.9:8080", true},
      {"gone, nodePort", "192.0.2.1:30080", "10.0.0.9:8080", true},
      {"not a nodePort address", "192.0.2.9:30080", "10.0.0.9:8080", false},
      {"another port of the endpoint", "10.96.0.1:80", "10.0.0.1:8081", true},
      {"not a Service port", "10.96.0.1:81", "10.0.0.9:8080", false},
      {"not a Service address", "203.0.113.1:80", "10.0.0.9:8080", false},
      {"SCTP endpoint", "10.96.0.1:3868", "10.0.0.1:3868", false, kSctp},
      {"SCTP, gone", "10.96.0.1:3868", "10.0.0.9:3868", true, kSctp},
      {"SCTP to a TCP port of the endpoint", "10.96.0.1:3868", "10.0.0.1:8080", true, kSctp},
      {"SCTP to a TCP port of the Service", "10.96.0.1:80", "10.0.0.9:8080", false, kSctp},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Stale(c.destination, c.endpoint, c.protocol), c.stale) << c.name;
  }
}

TEST_F(StaleHandshakesTest, S242_AHandshakeWithoutTranslationIsStale) {
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.96.0.1:80"));
  EXPECT_TRUE(Stale("198.51.100.1:80", "198.51.100.1:80"));
  EXPECT_FALSE(Stale("203.0.113.1:80", "203.0.113.1:80")) << "not a Service address";
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.96.0.1:80", nft::TransportProtocol::kTcp, 7))
      << "a virtual switch tracks the packet before translation";
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.9:8080", nft::TransportProtocol::kTcp, 7));
}

// An external IP can be the address of the endpoint.
TEST_F(StaleHandshakesTest, AnEndpointThatIsItsOwnDestinationIsAnEndpoint) {
  Apply({AService("ns/self").At("10.96.0.2").External("10.0.0.7").Port(80),
         ASlice("ns/self-1", "ns/self").Port(80).Endpoint("10.0.0.7", kReady)});
  EXPECT_FALSE(Stale("10.0.0.7:80", "10.0.0.7:80"));
}

TEST_F(StaleHandshakesTest, EndpointsOfOtherServicesDoNotCount) {
  Apply({AService("ns/other").At("10.96.0.2").Port(80),
         ASlice("ns/other-1", "ns/other").Port(8080).Endpoint("10.0.0.9", kReady)});
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.9:8080"));
  EXPECT_FALSE(Stale("10.96.0.2:80", "10.0.0.9:8080"));
}

// Other programs also translate addresses, but not those of a ServiceCIDR.
TEST_F(StaleHandshakesTest, AHandshakeThroughADeletedServiceIsStaleInAServiceCidr) {
  Apply({NoService("ns/web")});
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.1:8080"));
  Apply({AServiceCidr("kubernetes", {"10.96.0.0/16"})});
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.1:8080"));
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.96.0.1:80")) << "not translated";
  EXPECT_FALSE(Stale("198.51.100.1:80", "10.0.0.1:8080"));
}

TEST_F(StaleHandshakesTest, PortRangesKeepThePort) {
  node_.port_ranges = true;
  Apply({AService("ns/range").At("10.96.0.3").Port(1000, "all").EndPort(2000),
         ASlice("ns/range-1", "ns/range").Port(1, "all").Endpoint("10.0.0.1", kReady)});
  service_ = "ns/range";
  EXPECT_FALSE(Stale("10.96.0.3:1500", "10.0.0.1:1500"));
  EXPECT_TRUE(Stale("10.96.0.3:1500", "10.0.0.1:1501"));
  EXPECT_TRUE(Stale("10.96.0.3:1500", "10.0.0.9:1500"));
  EXPECT_FALSE(Stale("10.96.0.3:2001", "10.0.0.9:2001")) << "outside";
  node_.port_ranges = false;
  EXPECT_FALSE(Stale("10.96.0.3:1500", "10.0.0.9:1500"));
}

}  // namespace
}  // namespace svcmap::proxy
