// Tests of the rows for loadBalancerSourceRanges (docs/specification.md, section 3.5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;

AService Balanced() { return Web().LoadBalancer("203.0.113.1"); }
const std::string kFirewalledVip = " 203.0.113.1 . tcp . 80";

class FirewallRowsTest : public DesiredWorld {
 protected:
  Lines Firewall(const AService& service) {
    MakeAfter({service});
    return OwnLines("firewall-");
  }
};

TEST_F(FirewallRowsTest, S116AVipThatIsTheNodesAddressLeavesItsNodePortOpen) {
  EXPECT_THAT(Firewall(Web().NodePort(30080).LoadBalancer("192.0.2.7").SourceRange("10.0.0.0/8")),
              ElementsAre("firewall-ips 192.0.2.7 . tcp . 80",
                          "firewall-sources 192.0.2.7 . tcp . 80 . 10.0.0.0/8"));
}

TEST_F(FirewallRowsTest, S118AnUnknownNodeIsLoopback) {
  node_.own_ip[0] = Ip("127.0.0.1");
  EXPECT_THAT(Firewall(Balanced().SourceRange("127.0.0.0/8")),
              ElementsAre("firewall-ips" + kFirewalledVip,
                          "firewall-sources" + kFirewalledVip + " . 127.0.0.0/8",
                          "firewall-sources" + kFirewalledVip + " . 203.0.113.1"));
}

TEST_F(FirewallRowsTest, S118TheNodeOfOneFamilySaysNothingAboutTheOther) {
  EXPECT_THAT(Firewall(Balanced()
                           .At("fd00:96::1")
                           .LoadBalancer("2001:db8:9::1")
                           .SourceRange("192.0.2.0/24")
                           .SourceRange("fd00:5::/64")),
              ElementsAre("firewall-ips" + kFirewalledVip,
                          "firewall-sources" + kFirewalledVip + " . 192.0.2.0/24",
                          "firewall-sources" + kFirewalledVip + " . 203.0.113.1",
                          "firewall-ips 2001:db8:9::1 . tcp . 80",
                          "firewall-sources 2001:db8:9::1 . tcp . 80 . fd00:5::/64"));
}

TEST_F(FirewallRowsTest, S116RangesThatDoNotFitAllowNoSource) {
  AService service = Balanced().At("fd00:96::1").LoadBalancer("2001:db8:9::1");
  service.SourceRange("fd00:5::/64");
  for (size_t i = 0; i <= kMaxSourceRows; ++i) {
    service.SourceRange("10." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0/25");
  }
  EXPECT_THAT(Firewall(service),
              ElementsAre("firewall-ips" + kFirewalledVip, "firewall-ips 2001:db8:9::1 . tcp . 80",
                          "firewall-sources 2001:db8:9::1 . tcp . 80 . fd00:5::/64"));
  EXPECT_THAT(
      Findings(),
      ElementsAre("Service shop/web: spec.loadBalancerSourceRanges: Too many: 4097: svcmap's limit "
                  "is 4096 ranges of all Services together, counted for each IPv4 load balancer IP "
                  "and port, or protocol of port ranges; the IPv4 load balancer IPs of the Service "
                  "accept no traffic"));
}

TEST_F(FirewallRowsTest, S120RangesAreMerged) {
  EXPECT_THAT(Firewall(Balanced()
                           .SourceRange("10.0.0.0/8")
                           .SourceRange("10.1.0.0/16")
                           .SourceRange("10.0.0.0/8")
                           .SourceRange("11.0.0.0/8")),
              ElementsAre("firewall-ips" + kFirewalledVip,
                          "firewall-sources" + kFirewalledVip + " . 10.0.0.0/7"));
  // S-118: one of the ranges already contains the load balancer IP.
  EXPECT_THAT(Firewall(Balanced().SourceRange("192.0.2.0/24").SourceRange("203.0.113.0/24")),
              ElementsAre("firewall-ips" + kFirewalledVip,
                          "firewall-sources" + kFirewalledVip + " . 192.0.2.0/24",
                          "firewall-sources" + kFirewalledVip + " . 203.0.113.0/24"));
  EXPECT_THAT(Firewall(Balanced().SourceRange("10.0.0.3/32").SourceRange("10.0.0.4/31")),
              ElementsAre("firewall-ips" + kFirewalledVip,
                          "firewall-sources" + kFirewalledVip + " . 10.0.0.3-10.0.0.5"));
}

}  // namespace
}  // namespace svcmap::proxy
