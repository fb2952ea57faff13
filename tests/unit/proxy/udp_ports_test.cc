#include "proxy/conntrack/udp_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/desired_world.h"
#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UdpPortsTest : public DesiredWorld {
 protected:
  UdpPortsTest() { node_.node_port_addresses = Ips({"172.16.0.1", "fd16::1"}); }

  void Apply(const Change& change) { DesiredWorld::Apply({change}); }
  UdpPorts Ports(const std::string& key) {
    before_ = {};
    return MakeUdpPorts(store_.Find(key), &Make(key).rows);
  }
};

AService Dns() { return AService("ns/dns").At("10.96.0.10").Port(53, "dns", Protocol::kUdp); }
ASlice DnsSlice() { return ASlice("ns/dns-1", "ns/dns").Port(5353, "dns", Protocol::kUdp); }

TEST_F(UdpPortsTest, S237ServicesWithoutUdpHaveNone) {
  Apply(AService("ns/web").At("10.96.0.1").Port(80).NodePort(30080));
  Apply(ASlice("ns/web-1", "ns/web").Port(80).Ready("10.0.0.1"));
  EXPECT_THAT(Ports("ns/web"), IsEmpty());
  EXPECT_THAT(Ports("ns/none"), IsEmpty());
}

TEST_F(UdpPortsTest, S240EachFamilyAndEachPortIsOneOfItsOwn) {
  Apply(Dns().At("fd00::10").NodePort(30053).Port(54, "other", Protocol::kUdp));
  Apply(DnsSlice().Ready("10.0.0.1"));
  Apply(ASlice("ns/dns-2", "ns/dns", Family::kIpv6)
            .Port(53, "other", Protocol::kUdp)
            .Ready("fd01::1"));
  const UdpPorts ports = Ports("ns/dns");
  ASSERT_THAT(ports, SizeIs(4));
  const UdpPort &dns4 = ports.at({Family::kIpv4, "dns"}),
                other4 = ports.at({Family::kIpv4, "other"});
  EXPECT_THAT(Texts(dns4.destinations), ElementsAre("10.96.0.10:53", "172.16.0.1:30053"));
  EXPECT_EQ(dns4.endpoints, Endpoints({"10.0.0.1:5353"}));
  EXPECT_THAT(Texts(other4.destinations), ElementsAre("10.96.0.10:54"));
  EXPECT_THAT(other4.endpoints, IsEmpty());
  const UdpPort& dns6 = ports.at({Family::kIpv6, "dns"});
  EXPECT_THAT(Texts(dns6.destinations), ElementsAre("[fd00::10]:53", "[fd16::1]:30053"));
  EXPECT_THAT(dns6.endpoints, IsEmpty());
  EXPECT_EQ(ports.at({Family::kIpv6, "other"}).endpoints, Endpoints({"[fd01::1]:53"}));
}

// A UDP port keeps its destinations, even if no endpoint accepts new flows.
TEST_F(UdpPortsTest, S238ADrainedEndpointKeepsItsFlows) {
  Apply(Dns());
  Apply(DnsSlice().Ready("10.0.0.1").Weight(0));
  const UdpPorts ports = Ports("ns/dns");
  ASSERT_THAT(ports, SizeIs(1));
  EXPECT_THAT(Texts(ports.begin()->second.destinations), ElementsAre("10.96.0.10:53"));
  EXPECT_EQ(ports.begin()->second.endpoints, Endpoints({"10.0.0.1:5353"}));
}

TEST_F(UdpPortsTest, S240AddressesOfAnOlderServiceAreNotOurs) {
  Apply(AService("ns/older")
            .At("10.96.0.11")
            .External("198.51.100.1")
            .Port(53, "", Protocol::kUdp)
            .Created(1));
  Apply(Dns().External("198.51.100.1").External("198.51.100.2").Created(2));
  const UdpPorts ports = Ports("ns/dns");
  ASSERT_THAT(ports, SizeIs(1));
  EXPECT_THAT(Texts(ports.begin()->second.destinations),
              ElementsAre("10.96.0.10:53", "198.51.100.2:53"));
}

TEST_F(UdpPortsTest, S237SlicesWithoutTheirServiceStillSayWhoServes) {
  Apply(DnsSlice().Ready("10.0.0.1"));
  const UdpPorts ports = Ports("ns/dns");
  ASSERT_THAT(ports, SizeIs(1));
  EXPECT_THAT(ports.begin()->second.destinations, IsEmpty());
  EXPECT_EQ(ports.begin()->second.endpoints, Endpoints({"10.0.0.1:5353"}));
}

}  // namespace
}  // namespace svcmap::proxy
