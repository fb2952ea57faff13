#include "proxy/state/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

class StateLimitsTest : public ::testing::Test {
 protected:
  void Hold(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }
  std::string Rejection(const Change& change) const {
    const std::optional<Finding> over = OverLimit(store_, change, limits_);
    return over ? over->ToString() : "";
  }
  static ASlice Slice(const std::string& name, int endpoints, Family family = Family::kIpv4) {
    ASlice slice("shop/" + name, "shop/web", family);
    const std::string prefix = family == Family::kIpv4 ? "10.1.0." : "fd00::";
    for (int i = 1; i <= endpoints; ++i) slice.Ready(prefix + std::to_string(i));
    return slice;
  }

  Store store_;
  StateLimits limits_;
};

TEST_F(StateLimitsTest, ObjectsOfAllKindsCount) {
  limits_.objects = 4;
  Hold({Web(), WebSlice(), ANode("n1", {"192.0.2.1"})});
  EXPECT_EQ(Rejection(AServiceCidr("c", {"10.96.0.0/16"})), "");
  Hold({AServiceCidr("c", {"10.96.0.0/16"})});
  for (const Change& change :
       std::vector<Change>{AService("shop/more").Port(80), ASlice("shop/more-1", "shop/more"),
                           ANode("n2", {"192.0.2.2"}), AServiceCidr("d", {"10.97.0.0/16"})}) {
    EXPECT_EQ(Rejection(change), std::string(KindName(change.kind)) + " " + change.key +
                                     " rejected: the agent already stores --max-objects 4 "
                                     "objects");
  }
}

TEST_F(StateLimitsTest, StoredObjectsMayChangeAndGo) {
  limits_.objects = 1;
  // Store more objects than the limit permits, as after a restart with a lower limit.
  Hold({Web(), WebSlice(), ANode("n1", {"192.0.2.1"})});
  EXPECT_EQ(Rejection(Web().NodePort(30080)), "");
  EXPECT_EQ(Rejection(ANode("n1", {"192.0.2.2"})), "");
  EXPECT_EQ(Rejection(NoService("shop/web")), "");
  EXPECT_EQ(Rejection(NoService("shop/unknown")), "");
}

TEST_F(StateLimitsTest, SliceOfAServiceThatIsNotStoredIsAnObjectMore) {
  limits_.objects = 1;
  Hold({WebSlice()});
  // The EndpointSlice is stored, but the Service is not.
  EXPECT_NE(Rejection(Web()), "");
}

TEST_F(StateLimitsTest, EndpointsOfAllSlicesOfAFamilyCount) {
  limits_.endpoints_per_service = 5;
  EXPECT_EQ(Rejection(Slice("a", 5)), "");
  EXPECT_EQ(Rejection(Slice("a", 6)),
            "EndpointSlice shop/a rejected: endpoints: Too many: 6: all EndpointSlices of Service "
            "shop/web together must have at most 5 IPv4 endpoints (--max-endpoints-per-service); "
            "the previously accepted version, if any, stays in effect, without endpoints that are "
            "missing from the rejected version");
  Hold({Slice("a", 3)});
  EXPECT_EQ(Rejection(Slice("b", 2)), "");
  EXPECT_NE(Rejection(Slice("b", 3)), "");
  EXPECT_EQ(Rejection(Slice("b", 5, Family::kIpv6)), "");
  EXPECT_EQ(Rejection(Slice("a", 5)), "");  // The change replaces the stored EndpointSlice.
}

TEST_F(StateLimitsTest, SliceThatDoesNotGrowIsAlwaysTaken) {
  limits_.endpoints_per_service = 5;
  Hold({Slice("a", 6), Slice("b", 6)});
  EXPECT_EQ(Rejection(Slice("a", 6).Port(8080)), "");
  EXPECT_EQ(Rejection(Slice("a", 4)), "");
  EXPECT_NE(Rejection(Slice("a", 7)), "");
}

// Returns a change with a Service named `key`. The Service's message has `bytes` bytes.
Change ServiceOfBytes(const std::string& key, size_t bytes) {
  const Change made = AService(key).Port(80);
  auto service = std::make_shared<Service>(*made.service);
  service->message = std::string(bytes - key.size(), 'x');
  Change change = made;
  change.service = std::move(service);
  return change;
}

TEST_F(StateLimitsTest, BytesOfAllObjectsCount) {
  limits_.bytes = 1000;
  Hold({ServiceOfBytes("shop/a", 600)});
  EXPECT_EQ(store_.bytes(), 600u);
  EXPECT_EQ(Rejection(ServiceOfBytes("shop/b", 400)), "");
  EXPECT_EQ(Rejection(ServiceOfBytes("shop/b", 401)),
            "Service shop/b rejected: this object of 401 bytes would raise the total to "
            "1001 bytes, more than --max-bytes 1000");
  EXPECT_EQ(Rejection(ServiceOfBytes("shop/a", 1000)), "");
  EXPECT_EQ(
      Rejection(ServiceOfBytes("shop/a", 1001)),
      "Service shop/a rejected: this object of 1001 bytes would raise the total to "
      "1001 bytes, more than --max-bytes 1000; the previously accepted version, if any, stays "
      "in effect");
}

TEST_F(StateLimitsTest, ObjectsThatDoNotGrowAreTakenAndRemovedOnesMakeRoom) {
  Hold({ServiceOfBytes("shop/a", 600), ServiceOfBytes("shop/b", 600)});
  limits_.bytes = 1000;  // Lower the limit, as after a restart with a lower limit.
  EXPECT_EQ(Rejection(ServiceOfBytes("shop/a", 600)), "");
  EXPECT_EQ(Rejection(NoService("shop/a")), "");
  Hold({ServiceOfBytes("shop/a", 500), NoService("shop/b")});
  EXPECT_EQ(store_.bytes(), 500u);
  EXPECT_EQ(Rejection(ServiceOfBytes("shop/b", 500)), "");
}

TEST_F(StateLimitsTest, PortsTimesAddressesAndPortsTimesEndpointsCount) {
  // 2 ports x (clusterIP, external IP, load balancer IP) in each of two families.
  const Change web = AService("shop/web")
                         .At("10.96.0.1")
                         .At("fd00:96::1")
                         .External("192.0.2.1")
                         .LoadBalancer("198.51.100.1")
                         .LoadBalancer("2001:db8::1")
                         .Port(80, "http")
                         .Port(443, "https");
  Hold({web});
  EXPECT_EQ(store_.elements(), 40u);
  const Change slice = Slice("a", 3).Port(8080, "http").Port(8443, "https").Port(9000, "other");
  Hold({slice});
  EXPECT_EQ(store_.elements(), 49u);
  // An endpoint can use as many slots as its weight.
  Hold({Slice("a", 2).Weight(100).Port(8080, "http").Port(8443, "https")});
  EXPECT_EQ(store_.elements(), 40u + 2 * 101);
  Hold({Slice("a", 2).Weight(0).Port(8080, "http")});
  EXPECT_EQ(store_.elements(), 42u);
  Hold({NoService("shop/web")});
  EXPECT_EQ(store_.elements(), 2u);
  Hold({NoSlice("shop/a")});
  EXPECT_EQ(store_.elements(), 0u);
  // A slice without a Service causes no elements.
  Hold({ASlice("shop/b", "").Port(80).Ready("10.1.0.1")});
  EXPECT_EQ(store_.elements(), 0u);
}

TEST_F(StateLimitsTest, ElementsOfAllObjectsAreLimited) {
  limits_.elements = 13;
  Hold({AService("shop/web").At("10.96.0.1").Port(80), Slice("a", 4).Port(8080)});
  EXPECT_EQ(store_.elements(), 8u);
  EXPECT_EQ(Rejection(Slice("b", 5).Port(8080)), "");
  EXPECT_EQ(Rejection(Slice("b", 3).Port(8080).Port(8443, "https")),
            "EndpointSlice shop/b rejected: this object of 6 elements would raise the "
            "total to 14 elements, more than --max-elements 13");
  EXPECT_EQ(Rejection(Slice("a", 9).Port(8080)), "");
  EXPECT_EQ(Rejection(Slice("a", 10).Port(8080)),
            "EndpointSlice shop/a rejected: this object of 10 elements would raise the "
            "total to 14 elements, more than --max-elements 13; the previously accepted version, "
            "if any, stays in effect, without endpoints that are missing from the rejected "
            "version");
  const Change large = AService("shop/large").At("10.96.0.2").Port(80, "http").Port(443, "https");
  EXPECT_EQ(Rejection(large),
            "Service shop/large rejected: this object of 8 elements would raise the "
            "total to 16 elements, more than --max-elements 13");
  EXPECT_EQ(Rejection(ANode("n1", {"192.0.2.1"})), "");
  Hold({NoSlice("shop/a")});
  EXPECT_EQ(Rejection(large), "");
}

TEST_F(StateLimitsTest, ObjectsWithoutMoreElementsAreTakenAboveTheLimit) {
  Hold({Slice("a", 4).Port(8080), Slice("b", 4).Port(8080)});
  limits_.elements = 5;  // Lower the limit, as after a restart with a lower limit.
  EXPECT_EQ(Rejection(Slice("a", 4).Port(9090)), "");
  EXPECT_EQ(Rejection(Slice("a", 3).Port(8080)), "");
  EXPECT_NE(Rejection(Slice("a", 5).Port(8080)), "");
  EXPECT_EQ(Rejection(NoSlice("shop/a")), "");
}

// 512 ports times 512 endpoints are permitted, one port more is not.
TEST_F(StateLimitsTest, PortsTimesEndpointsOfAServiceAreLimited) {
  const auto slice = [](const std::string& name, int ports, Family family = Family::kIpv4) {
    ASlice made("shop/" + name, "shop/web", family);
    for (int i = 0; i < 256; ++i) {
      made.Ready((family == Family::kIpv4 ? "10.1." : "fd00::") + std::to_string(i / 256) +
                 (family == Family::kIpv4 ? "." : ":") + std::to_string(i % 256));
    }
    for (int i = 1; i <= ports; ++i) {
      made.Port(static_cast<uint16_t>(i), "p" + std::to_string(i));
    }
    return made;
  };
  Hold({slice("a", 512)});
  EXPECT_EQ(Rejection(slice("b", 512)), "");
  EXPECT_EQ(
      Rejection(slice("b", 513)),
      "EndpointSlice shop/b rejected: endpoints: Too many: 256: the sum of ports times "
      "endpoints over all EndpointSlices of Service shop/web would be 262400 for IPv4, "
      "which exceeds svcmap's limit of 262144; the previously accepted version, if any, stays "
      "in effect, without endpoints that are missing from the rejected version");
  EXPECT_EQ(Rejection(slice("b", 513, Family::kIpv6)), "");
  EXPECT_EQ(Rejection(slice("a", 1024)), "");
  EXPECT_NE(Rejection(slice("a", 1025)), "");
}

TEST_F(StateLimitsTest, SliceThatBelongsToNoServiceHasNoLimitOfEndpoints) {
  limits_.endpoints_per_service = 0;
  EXPECT_EQ(Rejection(ASlice("shop/a", "").Ready("10.1.0.1")), "");
}

}  // namespace
}  // namespace svcmap::proxy
