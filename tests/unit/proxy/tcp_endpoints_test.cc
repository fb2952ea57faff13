#include "proxy/conntrack/tcp_endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/desired_world.h"
#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;

class TcpEndpointsTest : public DesiredWorld {
 protected:
  TcpEndpointsTest() {
    node_.node_port_addresses = Ips({"172.16.0.1", "fd16::1"});
    node_.tcp_resets = TcpResets::kLoose;
    node_.reset_stale_tcp = true;
  }

  void Apply(const Change& change) { DesiredWorld::Apply({change}); }
  TcpEndpoints Tcp(const std::string& key) {
    before_ = {};
    return MakeTcpEndpoints(store_.Find(key), &Make(key).rows, store_.claims(), node_);
  }
};

TEST_F(TcpEndpointsTest, DestinationsAreAllAddressesOfTheTcpPorts) {
  Apply(AService("ns/web")
            .At("10.96.0.1")
            .At("fd00::1")
            .Port(80, "web")
            .NodePort(30080)
            .Port(53, "dns", Protocol::kUdp)
            .LoadBalancer("192.0.2.1"));
  EXPECT_THAT(Texts(Tcp("ns/web").destinations),
              ElementsAre("10.96.0.1:80", "172.16.0.1:30080", "192.0.2.1:80", "[fd00::1]:80",
                          "[fd16::1]:30080"));
}

// An endpoint that is in a slice is not gone, whatever its conditions and the name of its port.
TEST_F(TcpEndpointsTest, EndpointsAreAllInTheSlicesWhateverTheirConditions) {
  Apply(AService("ns/web").At("10.96.0.1").Port(80, "web"));
  Apply(ASlice("ns/web-1", "ns/web")
            .Port(8080, "web")
            .Port(53, "dns", Protocol::kUdp)
            .Ready("10.0.0.1")
            .Endpoint("10.0.0.2", kDown)
            .Endpoint("10.0.0.3", kServingTerminating));
  Apply(ASlice("ns/web-2", "ns/web").Port(8080, "renamed").Ready("10.0.0.1").Ready("10.0.0.4"));
  EXPECT_EQ(Tcp("ns/web").endpoints,
            Endpoints({"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080", "10.0.0.4:8080"}));
}

TEST_F(TcpEndpointsTest, AServiceWithoutTcpDestinationsHasNone) {
  Apply(AService("ns/dns").At("10.96.0.1").Port(53, "dns", Protocol::kUdp));
  Apply(ASlice("ns/dns-1", "ns/dns").Port(80, "web").Ready("10.0.0.1"));
  EXPECT_EQ(Tcp("ns/dns"), TcpEndpoints());
  const Claims& claims = store_.claims();
  EXPECT_EQ(MakeTcpEndpoints(nullptr, nullptr, claims, node_), TcpEndpoints());
  EXPECT_EQ(MakeTcpEndpoints(store_.Find("ns/dns"), nullptr, claims, node_), TcpEndpoints());
}

// Connections to these destinations may belong to the other Service.
TEST_F(TcpEndpointsTest, DestinationsThatHideOnesOfAnotherServiceAreLeftOut) {
  node_.port_ranges = true;
  Apply(AService("ns/web").At("10.96.0.1").Port(80).NodePort(30080));
  Apply(AService("ns/all").At("10.96.0.2").Port(8000).EndPort(9000).External("192.0.2.5"));
  Apply(AService("ns/other")
            .At("10.96.0.3")
            .Port(30080, "a")
            .Port(8080, "b")
            .External("172.16.0.1")
            .External("192.0.2.5")
            .External("192.0.2.6"));
  EXPECT_THAT(Texts(Tcp("ns/other").destinations),
              ElementsAre("10.96.0.3:8080", "10.96.0.3:30080", "172.16.0.1:8080", "192.0.2.5:30080",
                          "192.0.2.6:8080", "192.0.2.6:30080"));
  EXPECT_THAT(Texts(Tcp("ns/web").destinations), ElementsAre("10.96.0.1:80"));
}

TEST_F(TcpEndpointsTest, AServiceWhoseConnectionsAreNotResetHasNone) {
  Apply(AService("ns/web").At("10.96.0.1").Port(80, "web").ResetStaleTcp(false));
  Apply(ASlice("ns/web-1", "ns/web").Port(8080, "web").Ready("10.0.0.1"));
  EXPECT_EQ(Tcp("ns/web"), TcpEndpoints());
}

}  // namespace
}  // namespace svcmap::proxy
