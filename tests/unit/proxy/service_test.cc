#include "proxy/desired/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using DesiredServiceTest = DesiredWorld;

TEST_F(DesiredServiceTest, AnAddressKeepsItsFirstRole) {
  MakeAfter({Web().External("10.96.0.1").External("192.0.2.1").LoadBalancer("192.0.2.1"),
             WebSlice().Ready("10.0.0.1")});
  EXPECT_THAT(OwnLines(), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 1.0.0.1",
                                      "service-ips 192.0.2.1 . tcp . 80 : 65.0.0.1"));
}

TEST_F(DesiredServiceTest, WeightsAreSlotsAndWhoStaysKeepsItsOwn) {
  const auto slots = [&] {
    std::string digits;
    for (const EndpointAddress& e : desired_.rows.ports[0].cluster.slots) {
      digits += e.ip.ToString().back();
    }
    return digits;
  };
  MakeAfter({Web(), WebSlice().Ready("10.0.0.1").Ready("10.0.0.2").Weight(3)});
  EXPECT_EQ(slots(), "1222");
  EXPECT_THAT(OwnLines("service-ips"), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 4.0.0.1"));
  MakeAfter({WebSlice().Ready("10.0.0.1").Weight(2).Ready("10.0.0.2").Weight(3)});
  EXPECT_EQ(slots(), "12221");
  MakeAfter({WebSlice().Ready("10.0.0.1").Weight(2).Ready("10.0.0.2").Weight(2)});
  EXPECT_EQ(slots(), "12") << "equal weights";
  MakeAfter({WebSlice().Ready("10.0.0.1").Weight(0).Ready("10.0.0.2").Weight(2)});
  EXPECT_EQ(slots(), "2");
  EXPECT_THAT(desired_.old_numbers, IsEmpty());
}

TEST_F(DesiredServiceTest, APickByHashHasATableThatChangesInPlace) {
  const auto slots = [&] { return desired_.rows.ports[0].cluster.slots; };
  MakeAfter({Web().Pick(PickBy::kClient),
             WebSlice().Ready("10.0.0.1").Ready("10.0.0.2").Ready("10.0.0.3")});
  const auto before = slots();
  EXPECT_EQ(before.size(), 251u);
  EXPECT_THAT(OwnLines("service-ips"), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 38.0.0.1"));
  MakeAfter({WebSlice().Ready("10.0.0.1").Ready("10.0.0.3")});
  EXPECT_THAT(desired_.new_numbers, IsEmpty());
  size_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    moved += before[i] != slots()[i] && before[i].ip != Ip("10.0.0.2") ? 1 : 0;
  }
  EXPECT_LT(moved, 30u) << "slots of the remaining endpoints";
  MakeAfter({Web().Pick(PickBy::kClientAndPort, 1021)});
  EXPECT_EQ(slots().size(), 1021u);
  EXPECT_THAT(OwnLines("service-ips"), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 42.0.0.1"));
  MakeAfter({Web()});
  EXPECT_EQ(slots().size(), 2u);
  EXPECT_THAT(OwnLines("service-ips"), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1"));
  EXPECT_THAT(desired_.old_numbers, IsEmpty());
}

TEST_F(DesiredServiceTest, WithoutHashesInTheKernelEndpointsArePickedAtRandom) {
  node_.hash_picks = false;
  MakeAfter({Web().Pick(PickBy::kClient), WebSlice().Ready("10.0.0.1").Ready("10.0.0.2")});
  EXPECT_THAT(OwnLines("service-ips"), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1"));
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("the kernel does not support hashes")));
}

TEST_F(DesiredServiceTest, TooManyEndpointsForATableArePickedAtRandom) {
  ASlice slice = WebSlice();
  for (int i = 0; i < 4094; ++i) {
    slice.Ready("10.1." + std::to_string(i / 256) + "." + std::to_string(i % 256));
  }
  MakeAfter({Web().Pick(PickBy::kClient), slice});
  EXPECT_EQ(desired_.rows.ports[0].cluster.slots.size(), 4094u);
  EXPECT_EQ(desired_.rows.ports[0].pick_by, PickBy::kRandom);
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("at most 4093 endpoints can be picked by hash")));
}

TEST_F(DesiredServiceTest, AGroupIsGivenBackWithTheLastEndpointAndWithThePort) {
  const struct {
    const char* name;
    Change change;
  } cases[] = {
      {"no endpoints", NoSlice("shop/web-1")},
      {"none usable", WebSlice().Endpoint("10.0.0.1", kDown)},
      {"other port", AService("shop/web").At("10.96.0.1").Port(80, "other")},
      {"other protocol", AService("shop/web").At("10.96.0.1").Port(80, "", Protocol::kUdp)},
      {"Service gone", NoService("shop/web")},
      {"no longer proxied", Web().NotProxied()},
  };
  for (const auto& c : cases) {
    store_ = Store();
    before_ = {};
    Apply({Web(), WebSlice().Ready("10.0.0.1")});
    const std::vector<Number> taken = Make().new_numbers;
    Apply({c.change});
    EXPECT_EQ(Make().old_numbers, taken) << c.name;
  }
}

TEST_F(DesiredServiceTest, WithoutAFreeGroupThePortIsRejectedAndNamed) {
  numbers_.Of(NumberPool::kGroups, Family::kIpv4) = NumberAllocator(0);
  MakeAfter({Web(), WebSlice().Local("10.0.0.1")});
  EXPECT_THAT(OwnLines(), ElementsAre("no-endpoint-services 10.96.0.1 . tcp . 80"));
  EXPECT_THAT(desired_.rows.ports[0].cluster.slots, IsEmpty());
  EXPECT_THAT(SharedRows(desired_.rows), ::testing::SizeIs(1)) << "the clusterIP";
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("all endpoint groups are in use")));
}

TEST_F(DesiredServiceTest, OfTooManyEndpointsTheFirstOnesAreUsedAndThatIsReported) {
  ASlice slice = WebSlice();
  for (uint32_t i = 0; i <= kMaxEndpoints; ++i) {
    const auto octet = [&](int shift) { return std::to_string(i >> shift & 255); };
    slice.Ready("10." + octet(16) + "." + octet(8) + "." + octet(0));
  }
  MakeAfter({Web(), slice});
  EXPECT_EQ(desired_.rows.ports[0].cluster.slots.size(), kMaxEndpoints);
  EXPECT_EQ(desired_.rows.ports[0].cluster.slots.back().ip, Ip("10.0.255.254"));
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("Too many: 65536: exceeds svcmap's limit of 65535")));
}

TEST_F(DesiredServiceTest, S16_AHealthCheckPortThatAnotherServiceHasIsReported) {
  MakeAfter({AService("shop/older").At("10.96.0.2").HealthCheck(32000).Created(1),
             Web().HealthCheck(32000).Created(2), WebSlice().Ready("10.0.0.1")});
  EXPECT_THAT(
      Findings(),
      ElementsAre("Service shop/web: spec.healthCheckNodePort: Duplicate value: 32000/TCP: already "
                  "used by Service shop/older, which is older, was received first, or is first by "
                  "name; not programmed"));
  Make("shop/older");
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(DesiredServiceTest, AHealthCheckPortThatIsANodePortIsReported) {
  const AService web = Web().At("fd00:96::1").HealthCheck(30080);
  const auto other = [] { return AService("shop/other").At("10.96.0.2").At("fd00:96::2"); };
  MakeAfter({web, other().Port(80, "", Protocol::kUdp).NodePort(30080)});
  EXPECT_THAT(Findings(), IsEmpty()) << "UDP";
  MakeAfter({other().Port(80).NodePort(30080)});
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("Service shop/web: spec.healthCheckNodePort: Duplicate value: "
                                    "30080: is also a nodePort of Service shop/other")));
  MakeAfter({AService("shop/other").At("fd00:96::2").Port(80).NodePort(30080)});
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("shop/other"))) << "IPv6 only";
  MakeAfter({NoService("shop/other")});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(DesiredServiceTest, AClusterIpOfTheNodeOrItsGatewayIsReported) {
  Apply({Web().At("fd00:96::1")});
  node_.reserved = {.of_node = Ips({"10.96.0.2", "fd00:96::2"}), .of_gateways = Ips({"10.0.0.1"})};
  Make();
  EXPECT_THAT(Findings(), IsEmpty());
  node_.reserved = {.of_node = Ips({"10.96.0.1"}), .of_gateways = Ips({"fd00:96::1"})};
  Make();
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("spec.clusterIP: Invalid value: 10.96.0.1: must not be an "
                                    "address of a node, but is an address of this node"),
                          HasSubstr("spec.clusterIP: Invalid value: fd00:96::1: must not be the "
                                    "address of a host, but is a default gateway of this node")));
}

TEST_F(DesiredServiceTest, EndpointSlicesWithOtherPortNamesAreReported) {  // S-21
  const auto service = [] {
    return AService("shop/web").At("10.96.0.1").Port(80, "http").Port(443, "https");
  };
  const auto slice = [] { return ASlice("shop/web-1", "shop/web").Ready("10.0.0.1"); };
  const struct {
    const char* name;
    ASlice slice;
    const char* finding;  // Empty if there is none.
  } cases[] = {
      {"all ports", slice().Port(8080, "http").Port(8443, "https"), ""},
      {"pods without one of the ports", slice().Port(8080, "http"), ""},
      {"an additional port", slice().Port(1, "http").Port(2, "https").Port(3, "metrics"), ""},
      {"another name", slice().Port(8080, "http").Port(8443, "tls"),
       "EndpointSlice shop/web-1: ports: Invalid value: tls/TCP: the Service has no port with this "
       "name and protocol, and port https/TCP of Service shop/web gets no endpoints from this "
       "EndpointSlice"},
      {"no name", slice().Port(8080), "Invalid value: \"\"/TCP: the Service has no port"},
      {"another protocol", slice().Port(8080, "http", Protocol::kUdp), "Invalid value: http/UDP: "},
      {"no port", slice(),
       "EndpointSlice shop/web-1: ports: Required value: port http/TCP of Service shop/web gets no "
       "endpoints from this EndpointSlice, because no port has this name and protocol"},
      {"no endpoints", ASlice("shop/web-1", "shop/web").Port(8080), ""},
      {"a family that the Service does not use",
       ASlice("shop/web-1", "shop/web", Family::kIpv6).Ready("fd00::1").Port(8080), ""},
  };
  for (const auto& c : cases) {
    MakeAfter({service(), c.slice});
    if (*c.finding == 0) {
      EXPECT_THAT(Findings(), IsEmpty()) << c.name;
    } else {
      EXPECT_THAT(Findings(), ElementsAre(HasSubstr(c.finding))) << c.name;
    }
  }
}

TEST_F(DesiredServiceTest, ManyPortsAndSlicesWithOtherNamesHaveFewFindings) {
  AService service = AService("shop/web").At("10.96.0.1");
  for (uint16_t i = 1; i <= 1000; ++i) service.Port(i, "p" + std::to_string(i));
  Apply({service});
  for (int n = 0; n < 50; ++n) {
    ASlice slice("shop/web-" + std::to_string(n), "shop/web");
    for (uint16_t i = 1; i <= 1000; ++i) slice.Port(i, "q" + std::to_string(i));
    Apply({slice.Ready("10.0.0.1")});
  }
  Make();
  EXPECT_EQ(Findings().size(), 10u);
}

// Returns the rows for loadBalancerSourceRanges (docs/specification.md, section 3.5).
class FirewallRowsTest : public DesiredWorld {
 protected:
  static AService Balanced() { return Web().LoadBalancer("203.0.113.1"); }
  Lines Firewall(const AService& service) {
    MakeAfter({service});
    return OwnLines("firewall-");
  }
};

TEST_F(FirewallRowsTest, S118AnUnknownNodeIsLoopback) {
  node_.own_ip[0] = Ip("127.0.0.1");
  EXPECT_THAT(Firewall(Balanced().SourceRange("127.0.0.0/8")),
              ElementsAre("firewall-ips 203.0.113.1 . tcp . 80",
                          "firewall-sources 203.0.113.1 . tcp . 80 . 127.0.0.0/8",
                          "firewall-sources 203.0.113.1 . tcp . 80 . 203.0.113.1"));
}

TEST_F(FirewallRowsTest, S116RangesThatDoNotFitAllowNoSource) {
  AService service = Balanced().At("fd00:96::1").LoadBalancer("2001:db8:9::1");
  service.SourceRange("fd00:5::/64");
  for (size_t i = 0; i <= kMaxSourceRows; ++i) {
    service.SourceRange("10." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0/25");
  }
  EXPECT_THAT(
      Firewall(service),
      ElementsAre("firewall-ips 203.0.113.1 . tcp . 80", "firewall-ips 2001:db8:9::1 . tcp . 80",
                  "firewall-sources 2001:db8:9::1 . tcp . 80 . fd00:5::/64"));
  EXPECT_THAT(
      Findings(),
      ElementsAre("Service shop/web: spec.loadBalancerSourceRanges: Too many: 4097: svcmap's limit "
                  "is 4096 ranges of all Services together, counted for each IPv4 load balancer IP "
                  "and port, or protocol of port ranges; the IPv4 load balancer IPs of the Service "
                  "accept no traffic"));
}

}  // namespace
}  // namespace svcmap::proxy
