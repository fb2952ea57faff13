#include "proxy/health/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::Eq;

constexpr uint16_t kHealthPort = 32000;

AService CheckedWeb() {
  return AService("shop/web")
      .At("10.96.0.1")
      .Port(80, "http")
      .ExternalLocal()
      .HealthCheck(kHealthPort);
}
ASlice CheckedSlice() { return ASlice("shop/web-1", "shop/web").Port(8080, "http"); }

class HealthCheckTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }
  std::optional<HealthCheck> Check(const std::string& key = "shop/web") {
    return HealthCheckOf(store_.Find(key), store_.claims());
  }
  // Returns the reported number of local IPv4 endpoints.
  uint32_t Count(const std::vector<Change>& changes) {
    store_ = Store();
    Apply(changes);
    return Check()->local_endpoints[0];
  }

  Store store_;
};

TEST_F(HealthCheckTest, S13_S259_AServiceHasOneInEachOfItsFamilies) {
  Apply({CheckedWeb(), CheckedSlice()});
  EXPECT_EQ(Check(), (HealthCheck{kHealthPort, {true, false}, {0, 0}}));
  Apply({CheckedWeb().At("fd00:96::1"), CheckedSlice().Local("10.0.0.1"),
         ASlice("shop/web-6", "shop/web", Family::kIpv6)
             .Port(8080, "http")
             .Local("fd00::1")
             .Local("fd00::2")});
  EXPECT_EQ(Check(), (HealthCheck{kHealthPort, {true, true}, {1, 2}}));
}

TEST_F(HealthCheckTest, S13_NothingElseHasOne) {
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "unknown";
  Apply({CheckedSlice().Local("10.0.0.1")});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "only slices";
  Apply({AService("shop/web").At("10.96.0.1").Port(80)});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "no healthCheckNodePort";
  Apply({CheckedWeb().NotProxied()});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "not proxied";
  Apply({AService("shop/web").Port(80).HealthCheck(kHealthPort)});
  EXPECT_THAT(Check(), Eq(std::nullopt)) << "no clusterIP";
}

TEST_F(HealthCheckTest, S262_OnlyReadyEndpointsOnThisNodeCount) {
  EXPECT_EQ(Count({CheckedWeb(), CheckedSlice()
                                     .Local("10.0.0.1")
                                     .Local("10.0.0.6")
                                     .Weight(0)
                                     .Ready("10.0.0.2")
                                     .Endpoint("10.0.0.3", kServingOnly, true)
                                     .Endpoint("10.0.0.4", kServingTerminating, true)
                                     .Endpoint("10.0.0.5", kDown, true)}),
            1u);
  EXPECT_EQ(Count({CheckedWeb(), CheckedSlice().Endpoint("10.0.0.1", kReadyTerminating, true)}), 1u)
      << "ready is taken as it is said (S-24)";
}

TEST_F(HealthCheckTest, S262_AnAddressCountsOnceOverAllPortsAndSlices) {
  const AService service = CheckedWeb().Port(443, "https");
  EXPECT_EQ(Count({service, ASlice("shop/web-1", "shop/web")
                                .Port(8080, "http")
                                .Port(8443, "https")
                                .Local("10.0.0.1")
                                .Local("10.0.0.2")}),
            2u);
  EXPECT_EQ(Count({service, CheckedSlice().Local("10.0.0.1"),
                   ASlice("shop/web-2", "shop/web").Port(8443, "https").Local("10.0.0.1")}),
            1u);
  EXPECT_EQ(Count({service, CheckedSlice().Local("10.0.0.1"),
                   ASlice("shop/web-2", "shop/web").Port(8443, "https").Local("10.0.0.3")}),
            2u);
}

TEST_F(HealthCheckTest, S262_PortsThatAreNotTheServicesDoNotCount) {
  EXPECT_EQ(
      Count({CheckedWeb(), ASlice("shop/web-1", "shop/web").Port(8080, "other").Local("10.0.0.1")}),
      0u);
  EXPECT_EQ(
      Count(
          {CheckedWeb(),
           ASlice("shop/web-1", "shop/web").Port(8080, "http", Protocol::kUdp).Local("10.0.0.1")}),
      0u);
}

TEST_F(HealthCheckTest, S16_OnePortCanBelongToAServiceInEachFamily) {
  Apply({CheckedWeb(), AService("shop/six").At("fd00:96::2").HealthCheck(kHealthPort),
         AService("shop/zboth").At("10.96.0.3").At("fd00:96::3").HealthCheck(kHealthPort)});
  EXPECT_EQ(Check("shop/web"), (HealthCheck{kHealthPort, {true, false}, {0, 0}}));
  EXPECT_EQ(Check("shop/six"), (HealthCheck{kHealthPort, {false, true}, {0, 0}}));
  EXPECT_FALSE(Check("shop/zboth"));
  Apply({NoService("shop/six")});
  EXPECT_EQ(Check("shop/zboth"), (HealthCheck{kHealthPort, {false, true}, {0, 0}}));
}

// As in kube-proxy, if a nodePort and the health check port have the same number, the nodePort
// receives the packets to the node's addresses.
TEST_F(HealthCheckTest, ANodePortOfTheSameNumberIsNoRival) {
  Apply({CheckedWeb(), AService("shop/other").At("10.96.0.2").Port(80).NodePort(kHealthPort)});
  EXPECT_TRUE(Check());
  EXPECT_EQ(store_.claims().Owner(NodePortClaim(Family::kIpv4, Protocol::kTcp, kHealthPort))->key,
            "shop/other");
}

}  // namespace
}  // namespace svcmap::proxy
