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

}  // namespace
}  // namespace svcmap::proxy
