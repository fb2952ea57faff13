#include "proxy/state/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "proxy/state/limits.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ServicePtr = std::shared_ptr<const Service>;

ClaimKey ClaimAt(std::string_view address, uint16_t port, Protocol protocol = Protocol::kTcp) {
  return {Ip(address), protocol, port};
}

std::string OwnerOf(const Claims& claims, const ClaimKey& key) {
  const Service* owner = claims.Owner(key);
  return owner != nullptr ? owner->key : "nobody";
}

// Stores Services and their claims, as Store does.
class Claimants {
 public:
  struct Stored {
    ServicePtr service;
    uint64_t first_seen = 0;
  };
  // `first_seen` counts only if the Service is new.
  std::vector<std::string> Put(const ServicePtr& service, uint64_t first_seen = 0) {
    Stored& held = services_[service->key];
    if (!held.service) held.first_seen = first_seen;
    const ServicePtr before = std::exchange(held.service, service);
    return claims_.Update(before, service, held.first_seen).others;
  }
  std::vector<std::string> Remove(const std::string& key) {
    const Stored before = services_.extract(key).mapped();
    return claims_.Update(before.service, nullptr, before.first_seen).others;
  }
  const Claims& claims() const { return claims_; }
  const std::map<std::string, Stored>& services() const { return services_; }

 private:
  std::map<std::string, Stored> services_;
  Claims claims_;
};

std::vector<std::string> ClaimTexts(const AService& service) {
  std::vector<std::string> texts;
  for (const ClaimKey& claim : ClaimsOf(*service.Build())) texts.push_back(claim.ToString());
  return texts;
}

TEST(ClaimsOfTest, AreWhatAServiceWantsToBeReachedAt) {
  const struct {
    const char* name;
    AService service;
    std::vector<std::string> claims;
  } cases[] = {
      {"not proxied", AService("a").At("10.96.0.1").Port(80).NotProxied(), {}},
      {"no ports", AService("a").At("10.96.0.1"), {}},
      {"clusterIP", AService("a").At("10.96.0.1").Port(80), {"10.96.0.1:80/TCP"}},
      {"healthCheckNodePort, in each family",
       AService("a").At("10.96.0.1").At("fd00::1").HealthCheck(32000),
       {"32000/TCP", "32000/TCP"}},
      {"each protocol for itself",
       AService("a").At("10.96.0.1").Port(53).Port(53, "udp", Protocol::kUdp),
       {"10.96.0.1:53/TCP", "10.96.0.1:53/UDP"}},
      {"all addresses, each once",
       AService("a")
           .At("10.96.0.1")
           .Port(80)
           .External("10.96.0.1")
           .External("192.0.2.1")
           .LoadBalancer("192.0.2.1")
           .LoadBalancer("192.0.2.2"),
       {"10.96.0.1:80/TCP", "192.0.2.1:80/TCP", "192.0.2.2:80/TCP"}},
      {"nothing in a family without clusterIP (S-3)",
       AService("a").At("fd00::1").Port(80).NodePort(30080).External("192.0.2.1"),
       {"[fd00::1]:80/TCP", "30080/TCP"}},
      {"a nodePort in each family",
       AService("a").At("10.96.0.1").At("fd00::1").Port(80).NodePort(30080),
       {"10.96.0.1:80/TCP", "30080/TCP", "[fd00::1]:80/TCP", "30080/TCP"}},
  };
  for (const auto& c : cases) EXPECT_EQ(ClaimTexts(c.service), c.claims) << c.name;
}

// S-16: the Service that was stored first decides if a Service has no creationTimestamp.
TEST(ClaimsTest, S16_TheServiceStoredFirstWinsIfATimestampIsMissing) {
  struct Claimant {
    std::string key;
    int64_t created;  // 0 if absent.
    uint64_t first_seen;
  };
  const struct {
    const char* name;
    std::vector<Claimant> claimants;
    std::string owner;
  } cases[] = {
      {"no timestamps", {{"ns/z", 0, 1}, {"ns/a", 0, 2}}, "ns/z"},
      {"no timestamps, stored at one revision", {{"ns/z", 0, 1}, {"ns/a", 0, 1}}, "ns/a"},
      {"only the first has a timestamp", {{"ns/z", 9, 1}, {"ns/a", 0, 2}}, "ns/z"},
      {"only the second has a timestamp", {{"ns/z", 0, 1}, {"ns/a", 9, 2}}, "ns/z"},
      {"timestamps differ from the order", {{"ns/a", 9, 1}, {"ns/z", 8, 2}}, "ns/z"},
      {"equal timestamps, by name", {{"ns/z", 9, 1}, {"ns/a", 9, 2}}, "ns/a"},
      {"a cycle of three", {{"ns/c", 2, 1}, {"ns/b", 0, 2}, {"ns/a", 1, 3}}, "ns/a"},
      {"another cycle", {{"ns/c", 0, 1}, {"ns/b", 2, 2}, {"ns/a", 1, 3}}, "ns/c"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<size_t> order(c.claimants.size());
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      Claimants claimants;
      for (const size_t i : order) {
        const auto& [key, created, first_seen] = c.claimants[i];
        claimants.Put(AService(key).Created(created).At("10.96.0.1").Port(80).Build(), first_seen);
      }
      EXPECT_EQ(OwnerOf(claimants.claims(), ClaimAt("10.96.0.1", 80)), c.owner);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// A Service that neither gains nor loses its own objects can lose a claim to a third Service.
TEST(ClaimsTest, S16_BothServicesAreNamedIfAThirdServiceMovesTheClaim) {
  Claimants claimants;
  claimants.Put(AService("ns/c").Created(2).At("10.96.0.1").Port(80).Build(), 1);
  claimants.Put(AService("ns/b").At("10.96.0.1").Port(80).Build(), 2);
  EXPECT_THAT(claimants.Put(AService("ns/a").Created(1).At("10.96.0.1").Port(80).Build(), 3),
              ElementsAre("ns/c"));
  EXPECT_THAT(claimants.Remove("ns/c"), ElementsAre("ns/a", "ns/b"));
  EXPECT_EQ(OwnerOf(claimants.claims(), ClaimAt("10.96.0.1", 80)), "ns/b");
}

TEST(ClaimsTest, AChangeWithTheSameClaimsConcernsNoOtherService) {
  Claimants claimants;
  claimants.Put(AService("ns/a").At("10.96.0.1").Port(80).Build());
  claimants.Put(AService("ns/b").At("10.96.0.1").Port(80).Build());
  EXPECT_THAT(claimants.Put(AService("ns/a").At("10.96.0.1").Port(80, "http").Build()), IsEmpty());
  EXPECT_THAT(claimants.Put(AService("ns/b").At("10.96.0.1").Port(80, "http").Build()), IsEmpty());
}

// S-94: on a node address, an exact claim takes precedence over a nodePort. When an exact claim is
// added, the nodePort's owner must be returned for re-evaluation.
TEST(ClaimsTest, TheHealthCheckPortOfAServiceIsTakenByANodePort) {
  Claimants claimants;
  claimants.Put(AService("ns/h").At("10.96.0.1").Port(80).HealthCheck(30080).Build());
  const auto node_port = [](Protocol protocol) {
    return AService("ns/n").At("10.96.0.2").Port(80, "", protocol).NodePort(30080).Build();
  };
  EXPECT_THAT(claimants.Put(node_port(Protocol::kTcp)), ElementsAre("ns/h"));
  EXPECT_EQ(claimants.claims().node_ports(Family::kIpv4), 1);
  EXPECT_EQ(claimants.claims().node_ports(Family::kIpv6), 0);
  EXPECT_THAT(claimants.Put(node_port(Protocol::kUdp)), ElementsAre("ns/h"));
  EXPECT_THAT(claimants.Remove("ns/n"), IsEmpty());
  EXPECT_EQ(claimants.claims().node_ports(Family::kIpv4), 0);
}

TEST(ClaimsTest, AnExactClaimNamesTheOwnerOfTheNodePort) {
  Claimants claimants;
  claimants.Put(AService("ns/n").At("10.96.0.1").Port(80).NodePort(30080).Build());
  const auto exact = AService("ns/x").At("10.96.0.2").Port(30080).External("192.0.2.1").Build();
  EXPECT_THAT(claimants.Put(exact), ElementsAre("ns/n"));
  EXPECT_EQ(OwnerOf(claimants.claims(), ClaimAt("192.0.2.1", 30080)), "ns/x");
  EXPECT_EQ(OwnerOf(claimants.claims(), NodePortClaim(Family::kIpv4, Protocol::kTcp, 30080)),
            "ns/n");
  EXPECT_THAT(claimants.Remove("ns/x"), ElementsAre("ns/n"));
}

// After any sequence of changes, the owners are the same as if the remaining Services had been
// added in order of their names.
TEST(ClaimsTest, AnyHistoryGivesTheOwnersOfItsResult) {
  std::mt19937 random(1);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Claimants claimants;
  for (int step = 0; step < 400; ++step) {
    const std::string key = "ns/" + std::to_string(pick(8));
    if (pick(4) == 0 && claimants.services().contains(key)) {
      claimants.Remove(key);
    } else {
      AService service(key);
      const int created = pick(3);
      service.Created(created).At("10.96.0." + std::to_string(1 + pick(4)));
      service.Port(static_cast<uint16_t>(80 + pick(2)))
          .NodePort(static_cast<uint16_t>(30080 + pick(2)));
      // A new Service without a timestamp does not take over a claim.
      const bool newcomer = created == 0 && !claimants.services().contains(key);
      const auto losers = claimants.Put(service.Build(), static_cast<uint64_t>(1 + step / 10));
      if (newcomer && step % 10 == 0) ASSERT_THAT(losers, IsEmpty()) << "step " << step;
    }
    Claimants anew;
    for (const auto& [name, stored] : claimants.services()) {
      anew.Put(stored.service, stored.first_seen);
    }
    for (const auto& [name, stored] : claimants.services()) {
      for (const ClaimKey& claim : ClaimsOf(*stored.service)) {
        ASSERT_EQ(OwnerOf(claimants.claims(), claim), OwnerOf(anew.claims(), claim))
            << claim.ToString() << " in step " << step;
      }
    }
  }
}

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
