// No packet is lost while Services and endpoints change.
#include <set>

#include "absl/strings/str_cat.h"
#include "proxy/ruleset/descriptor.h"
#include "tests/loss/loss_world.h"

namespace svcmap::testing {
namespace {

using ChangeLossTest = LossTest;

std::set<int> Consecutive(int first, int count) {
  std::set<int> endpoints;
  for (int i = 0; i < count; ++i) endpoints.insert(first + i);
  return endpoints;
}

// Returns a key that differs from the key in the previous round.
std::string KeyIn(int round, int number) {
  return absl::StrCat(round % 2 == 0 ? "renamed" : "counted", "/s", number);
}

// Services of a growing cluster, which no client uses.
struct Crowd {
  Objects objects;
  std::vector<v1::ObjectRef> refs;
};

// Returns the address of an endpoint outside the pod range.
std::string CrowdEndpoint(int n, bool v6) {
  return v6 ? absl::StrCat("fd00:10:243::", absl::Hex(n + 1))
            : absl::StrCat("10.243.", n / 250, ".", 1 + n % 250);
}

Crowd MakeCrowd(int first, int services, int endpoints) {
  Crowd crowd;
  for (int i = first; i < first + services; ++i) {
    const std::string key = absl::StrCat("crowd/s", i);
    crowd.objects.push_back(AService(key).ClusterIps(OtherIp(i).v4, OtherIp(i).v6).Port("p", 80));
    crowd.refs.push_back(ServiceRef(key));
    for (const bool v6 : {false, true}) {
      const std::string name = absl::StrCat("s", i, v6 ? "-v6" : "-v4");
      ASlice slice(key);
      for (int j = i * endpoints; j < (i + 1) * endpoints; ++j) {
        slice.Endpoint(CrowdEndpoint(j, v6), kAgentNode);
      }
      crowd.objects.push_back(slice.Named(name).Port("p", kPodPort));
      crowd.refs.push_back(SliceRef("crowd/" + name));
    }
  }
  return crowd;
}

// Numbers of endpoints that follow each other: growing, shrinking, and across kinds of pick chains.
constexpr int kNumbersOfEndpoints[] = {7, 3, 20, 2, 9, 1};
const std::set<int> kAllServices = {0, 1, 2, 3, 4, 5};

// Each batch changes one Service.
TEST_F(ChangeLossTest, ServiceAfterService) {
  ExpectNoLossDuring("churn, one Service per batch", Rewrites(30), [&](int64_t i) {
    const int round = static_cast<int>(i / 6);
    CountedService changed = counted(static_cast<int>(i % 6));
    switch (changed.number) {
      case 0:  // The number of endpoints changes.
        changed.endpoints = Consecutive(0, kNumbersOfEndpoints[round % 6]);
        break;
      case 1:
        changed.key = KeyIn(round, 1);
        break;
      case 2:  // All endpoints move.
        changed.endpoints = Consecutive(96 + round % 4 * 8, 3);
        break;
      case 3:  // One of four endpoints moves.
        changed.endpoints = Consecutive(48 + round % 8, 4);
        break;
      case 4:
        changed.affinity_seconds = kCountedAffinitySeconds - changed.affinity_seconds;
        break;
      case 5:  // The endpoints of a Service with session affinity change.
        changed.affinity_seconds = kCountedAffinitySeconds;
        changed.endpoints = Consecutive(80 + round % 4 * 4, kNumbersOfEndpoints[round % 6]);
        break;
    }
    return Change({changed});
  });
}

// Each batch changes the endpoints of all Services and the keys of half of them. If an agent reused
// the number of a removed endpoint group too early, a Service could get the group of another
// Service.
TEST_F(ChangeLossTest, AllServicesAtOnce) {
  ExpectNoLossDuring("churn, all Services in a batch", Rewrites(30), [&](int64_t i) {
    const int round = static_cast<int>(i);
    return Change(EachCounted([&](CountedService& service) {
      const int number = service.number;
      if (number % 2 == 1) service.key = KeyIn(round, number);
      service.affinity_seconds =
          number >= 4 && round / (number - 3) % 2 == 0 ? kCountedAffinitySeconds : 0;
      service.endpoints =
          Consecutive(number * 16 + round % 4 * 4, kNumbersOfEndpoints[(round + number) % 6]);
    }));
  });
}

// Clients use load balancer IPs. The reject of a Service without endpoints must not end before
// packets that did not find the Service yet. No other rule rejects such packets.
TEST_F(ChangeLossTest, NoneToEndpointsAndBack) {
  const auto changed = [&](int64_t round) {
    return EachCounted([&](CountedService& service) {
      const int number = service.number;
      service.load_balancer = true;
      service.affinity_seconds = number >= 4 ? kCountedAffinitySeconds : 0;
      service.endpoints = Consecutive(
          number * 16, (round + number) % 2 == 0 ? 0 : kNumbersOfEndpoints[(round + number) % 6]);
    });
  };
  ASSERT_OK(Change(changed(0)));
  ExpectNoLossDuring(
      "none to endpoints and back", Rewrites(30), [&](int64_t i) { return Change(changed(i + 1)); },
      /*rejected=*/kAllServices);
}

// Clients outside the pod range use load balancer IPs with the policy Local. Half of the Services
// always have local endpoints.
TEST_F(ChangeLossTest, LocalEndpointsComeAndGo) {
  ASSERT_OK(StartAgent({"--cluster-cidr", "10.244.1.0/24,fd00:10:244::/48"}));
  const auto changed = [&](int64_t round) {
    return EachCounted([&](CountedService& service) {
      const int number = service.number;
      service.load_balancer = true;
      service.affinity_seconds = number % 3 == 2 ? kCountedAffinitySeconds : 0;
      const bool none = number >= 3 && round % 2 == 0;
      service.endpoints =
          Consecutive(number * 16, none ? 0 : kNumbersOfEndpoints[(round + number) % 6] % 8);
      service.remote_endpoints = Consecutive(number * 16 + 10, 2);
    });
  };
  for (const CountedService& service : changed(0)) counted(service.number) = service;
  ASSERT_OK(agent().Replace(Everything()));
  ExpectNoLossDuring("policy Local gains and loses local endpoints", Rewrites(30),
                     [&](int64_t i) { return Change(changed(i + 1)); },
                     /*rejected=*/{}, /*dropped=*/{3, 4, 5});
}

// Clients outside the pod range are masqueraded, so no datagram has the address of the client after
// the translation.
TEST_F(ChangeLossTest, NewClusterIpsAreMasqueraded) {
  ASSERT_OK(StartAgent({"--cluster-cidr", "10.244.1.0/24,fd00:10:244::/48"}));
  for (int number : kAllServices) counted(number).permitted = false;
  ASSERT_OK(agent().Replace(Everything()));
  ExpectNoLossDuring(
      "new cluster IPs", Rewrites(30),
      [&](int64_t i) {
        return Change(EachCounted([&](CountedService& service) { service.exists = i % 2 == 1; }));
      },
      /*rejected=*/kAllServices, /*dropped=*/kAllServices);
}

// Pods use load balancer IPs with the policy Local, without local endpoints. A pod that the rules
// do not find in `pod-sources` reaches no endpoint.
TEST_F(ChangeLossTest, RangesChange) {
  ASSERT_OK(Change(EachCounted([](CountedService& service) {
    service.load_balancer = true;
    service.node = kOtherNode;
  })));
  ExpectNoLossDuring("ranges changed", Rewrites(30), [&](int64_t i) {
    return Change({}, {i % 2 == 0 ? Upsert(AServiceCidr("more", {"10.112.0.0/16"}))
                                  : Removal(ServiceCidrRef("more"))});
  });
}

// svcmapd adds endpoints of a plan with more than 10,000 elements before the switch.
TEST_F(ChangeLossTest, AVeryLargeService) {
  CountedService large = counted(0);
  large.other_ports = 99;
  large.weighted = true;
  large.endpoints = Consecutive(0, 64);
  ASSERT_OK(Change({large}));
  ExpectNoLossDuring("a Service with 12,000 elements", Rewrites(10), [&](int64_t i) {
    // All endpoints change, and in half of the changes their number.
    large.endpoints = Consecutive(i % 2 == 0 ? 64 : 0, i % 4 < 2 ? 64 : 55);
    return Change({large});
  });
}

TEST_F(ChangeLossTest, Growth) {
  constexpr int kServices = 3000;
  constexpr int kEndpoints = 10;
  constexpr int kAtOnce = 500;
  std::vector<Crowd> crowds;
  for (int first = 0; first < kServices; first += kAtOnce) {
    crowds.push_back(MakeCrowd(first, kAtOnce, kEndpoints));
  }
  ExpectNoLossDuring("growth", Rewrites(3), [&](int64_t) {
    absl::Status status;
    for (const Crowd& crowd : crowds) status.Update(agent().Apply(crowd.objects));
    status.Update(LetTrafficFlow());
    for (const Crowd& crowd : crowds) status.Update(agent().Remove(crowd.refs));
    return status;
  });
}

// Each new timeout adds rules until the table has the maximum number of timeouts. Then, a new
// timeout replaces a timeout that no Service uses.
TEST_F(ChangeLossTest, NewAffinityTimeout) {
  ExpectNoLossDuring("new affinity timeout", Rewrites(2 * proxy::kMaxTimers), [&](int64_t i) {
    return Change(EachCounted(
        [&](CountedService& service) { service.affinity_seconds = static_cast<int>(2000 + i); }));
  });
}

// Clients use a load balancer IP whose source ranges contain them.
class SourceRangesLossTest : public LossTest {
 protected:
  static constexpr int kRanges = 100;

  CountedService Restricted(int number, int other_ranges) {
    CountedService service = counted(number);
    service.load_balancer = true;
    service.other_ranges = other_ranges;
    return service;
  }
};

TEST_F(SourceRangesLossTest, RestrictionsComeAndGo) {
  ASSERT_OK(Change({Restricted(0, 0), Restricted(1, 0)}));
  ExpectNoLossDuring("source ranges added and removed", Rewrites(30), [&](int64_t i) {
    return Change({Restricted(0, i % 2 == 0 ? 5 : 0), Restricted(1, i % 2 == 0 ? kRanges : 0)});
  });
}

// A new load balancer IP never accepts connections from sources that its ranges do not contain.
TEST_F(SourceRangesLossTest, NewIpsAreRestricted) {
  const auto changed = [&](bool load_balancer) {
    return EachCounted([&](CountedService& service) {
      service = Restricted(service.number, 5);
      service.permitted = false;
      service.load_balancer = load_balancer;
    });
  };
  // svcmapd drops packets to the IPs while no Service has them.
  ASSERT_OK(Change(changed(true), {Upsert(AServiceCidr("more", {kCountedLoadBalancers}))}));
  ExpectNoLossDuring(
      "new restricted load balancer IPs", Rewrites(30),
      [&](int64_t i) { return Change(changed(i % 2 == 1)); },
      /*rejected=*/kAllServices, /*dropped=*/kAllServices);
}

// Services with port ranges.
class PortRangesLossTest : public LossTest {
 protected:
  struct Ports {
    uint16_t first, last;
  };
  // The target ports are 9000 to 9005.
  static constexpr Ports kBlocks = {8960, 9300};  // 8960 to 9215 is a block of 256 ports.
  static constexpr Ports kElements = {8961, 9100};

  void SetUp() override {
    LossTest::SetUp();
    if (HasFatalFailure()) return;
    for (int number : kAllServices) counted(number) = With(number, kBlocks);
    ASSERT_OK(StartAgent({"--port-ranges"}));
    ASSERT_OK(agent().Replace(Everything()));
  }

  CountedService With(int number, Ports ports) {
    CountedService service = counted(number);
    service.first_port = ports.first;
    service.last_port = ports.last;
    service.affinity_seconds = number >= 3 ? kCountedAffinitySeconds : 0;
    return service;
  }
  CountedService WithOnePort(int number) {
    const uint16_t port = counted(number).target_port();
    return With(number, {port, port});
  }
};

// Ports move between a block, elements of their own, and single ports. Half of the Services have
// session affinity.
TEST_F(PortRangesLossTest, PortsMoveToOtherMaps) {
  const auto next = [&](int64_t i, int number) {
    switch ((i + number) % 4) {
      case 0:
        return With(number, kElements);
      case 1:
        return WithOnePort(number);
      case 2:
        return With(number, kBlocks);
      default:
        return i % 8 < 4 ? WithOnePort(number) : With(number, kElements);
    }
  };
  ExpectNoLossDuring("port ranges, ports move to other maps", Rewrites(30), [&](int64_t i) {
    return Change(EachCounted([&](CountedService& service) { service = next(i, service.number); }));
  });
}

}  // namespace
}  // namespace svcmap::testing
