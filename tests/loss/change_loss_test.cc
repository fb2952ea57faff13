// No packet is lost while Services and endpoints change.
#include <functional>
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

// Each batch changes one Service.
TEST_F(ChangeLossTest, ServiceAfterService) {
  const int64_t rewrites = Rewrites(30);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
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
    ASSERT_OK(Change({changed}));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("churn, one Service per batch", rewrites);
}

// Each batch changes the endpoints of all Services and the keys of half of them. If an agent reused
// the number of a removed endpoint group too early, a Service could get the group of another
// Service.
TEST_F(ChangeLossTest, AllServicesAtOnce) {
  const int64_t rewrites = Rewrites(30);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    const int round = static_cast<int>(i);
    std::vector<CountedService> changed;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      CountedService service = counted(number);
      if (number % 2 == 1) service.key = KeyIn(round, number);
      service.affinity_seconds =
          number >= 4 && round / (number - 3) % 2 == 0 ? kCountedAffinitySeconds : 0;
      service.endpoints =
          Consecutive(number * 16 + round % 4 * 4, kNumbersOfEndpoints[(round + number) % 6]);
      changed.push_back(std::move(service));
    }
    ASSERT_OK(Change(changed));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("churn, all Services in a batch", rewrites);
}

// Clients use load balancer IPs. The reject of a Service without endpoints must not end before
// packets that did not find the Service yet. No other rule rejects such packets.
TEST_F(ChangeLossTest, NoneToEndpointsAndBack) {
  const int64_t rewrites = Rewrites(30);
  const auto changed = [&](int64_t round) {
    std::vector<CountedService> services;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      CountedService service = counted(number);
      service.load_balancer = true;
      service.affinity_seconds = number >= 4 ? kCountedAffinitySeconds : 0;
      service.endpoints = Consecutive(
          number * 16, (round + number) % 2 == 0 ? 0 : kNumbersOfEndpoints[(round + number) % 6]);
      services.push_back(std::move(service));
    }
    return services;
  };
  ASSERT_OK(Change(changed(0)));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 1; i <= rewrites; ++i) {
    ASSERT_OK(Change(changed(i)));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("none to endpoints and back", rewrites, /*rejected=*/{0, 1, 2, 3, 4, 5});
}

// Clients outside the pod range use load balancer IPs with the policy Local. Half of the Services
// always have local endpoints.
TEST_F(ChangeLossTest, LocalEndpointsComeAndGo) {
  const int64_t rewrites = Rewrites(30);
  ASSERT_OK(StartAgent({"--cluster-cidr", "10.244.1.0/24,fd00:10:244::/48"}));
  const auto changed = [&](int64_t round) {
    std::vector<CountedService> services;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      CountedService service = counted(number);
      service.load_balancer = true;
      service.affinity_seconds = number % 3 == 2 ? kCountedAffinitySeconds : 0;
      const bool none = number >= 3 && round % 2 == 0;
      service.endpoints =
          Consecutive(number * 16, none ? 0 : kNumbersOfEndpoints[(round + number) % 6] % 8);
      service.remote_endpoints = Consecutive(number * 16 + 10, 2);
      services.push_back(std::move(service));
    }
    return services;
  };
  for (const CountedService& service : changed(0)) counted(service.number) = service;
  ASSERT_OK(agent().Replace(Everything()));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 1; i <= rewrites; ++i) {
    ASSERT_OK(Change(changed(i)));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("policy Local gains and loses local endpoints", rewrites, /*rejected=*/{},
               /*dropped=*/{3, 4, 5});
}

// Clients outside the pod range are masqueraded, so no datagram has the address of the client after
// the translation.
TEST_F(ChangeLossTest, NewClusterIpsAreMasqueraded) {
  const int64_t rewrites = Rewrites(30);
  ASSERT_OK(StartAgent({"--cluster-cidr", "10.244.1.0/24,fd00:10:244::/48"}));
  for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
    counted(number).permitted = false;
  }
  ASSERT_OK(agent().Replace(Everything()));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    std::vector<CountedService> changed;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      changed.push_back(counted(number));
      changed.back().exists = i % 2 == 1;
    }
    ASSERT_OK(Change(changed));
    ASSERT_OK(LetTrafficFlow());
  }
  const std::set<int> all = {0, 1, 2, 3, 4, 5};
  ExpectNoLoss("new cluster IPs", rewrites, /*rejected=*/all, /*dropped=*/all);
}

// Pods use load balancer IPs with the policy Local, without local endpoints. A pod that the rules
// do not find in `pod-sources` reaches no endpoint.
TEST_F(ChangeLossTest, RangesChange) {
  const int64_t rewrites = Rewrites(30);
  std::vector<CountedService> services;
  for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
    services.push_back(counted(number));
    services.back().load_balancer = true;
    services.back().node = kOtherNode;
  }
  ASSERT_OK(Change(services));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_OK(Change({}, {i % 2 == 0 ? Upsert(AServiceCidr("more", {"10.112.0.0/16"}))
                                     : Removal(ServiceCidrRef("more"))}));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("ranges changed", rewrites);
}

// svcmapd adds endpoints of a plan with more than 10,000 elements before the switch.
TEST_F(ChangeLossTest, AVeryLargeService) {
  const int64_t rewrites = Rewrites(10);
  CountedService large = counted(0);
  large.other_ports = 99;
  large.weighted = true;
  large.endpoints = Consecutive(0, 64);
  ASSERT_OK(Change({large}));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    // All endpoints change, and in half of the changes their number.
    large.endpoints = Consecutive(i % 2 == 0 ? 64 : 0, i % 4 < 2 ? 64 : 55);
    ASSERT_OK(Change({large}));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("a Service with 12,000 elements", rewrites);
}

TEST_F(ChangeLossTest, Growth) {
  constexpr int kServices = 3000;
  constexpr int kEndpoints = 10;
  constexpr int kAtOnce = 500;
  std::vector<Crowd> crowds;
  for (int first = 0; first < kServices; first += kAtOnce) {
    crowds.push_back(MakeCrowd(first, kAtOnce, kEndpoints));
  }
  const int64_t rewrites = Rewrites(3);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    for (const Crowd& crowd : crowds) ASSERT_OK(agent().Apply(crowd.objects));
    ASSERT_OK(LetTrafficFlow());
    for (const Crowd& crowd : crowds) ASSERT_OK(agent().Remove(crowd.refs));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("growth", rewrites);
}

// Each new timeout adds rules until the table has the maximum number of timeouts. Then, a new
// timeout replaces a timeout that no Service uses.
TEST_F(ChangeLossTest, NewAffinityTimeout) {
  const int64_t rewrites = Rewrites(2 * proxy::kMaxTimers);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    std::vector<CountedService> changed;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      changed.push_back(counted(number));
      changed.back().affinity_seconds = static_cast<int>(2000 + i);
    }
    ASSERT_OK(Change(changed));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("new affinity timeout", rewrites);
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
  const int64_t rewrites = Rewrites(30);
  ASSERT_OK(Change({Restricted(0, 0), Restricted(1, 0)}));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_OK(Change({Restricted(0, i % 2 == 0 ? 5 : 0), Restricted(1, i % 2 == 0 ? kRanges : 0)}));
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss("source ranges added and removed", rewrites);
}

// A new load balancer IP never accepts connections from sources that its ranges do not contain.
TEST_F(SourceRangesLossTest, NewIpsAreRestricted) {
  const int64_t rewrites = Rewrites(30);
  const auto changed = [&](bool load_balancer) {
    std::vector<CountedService> services;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      CountedService service = Restricted(number, 5);
      service.permitted = false;
      service.load_balancer = load_balancer;
      services.push_back(std::move(service));
    }
    return services;
  };
  // svcmapd drops packets to the IPs while no Service has them.
  ASSERT_OK(Change(changed(true), {Upsert(AServiceCidr("more", {kCountedLoadBalancers}))}));
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_OK(Change(changed(i % 2 == 1)));
    ASSERT_OK(LetTrafficFlow());
  }
  const std::set<int> all = {0, 1, 2, 3, 4, 5};
  ExpectNoLoss("new restricted load balancer IPs", rewrites, /*rejected=*/all, /*dropped=*/all);
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
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      counted(number) = With(number, kBlocks);
    }
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
  // Changes all Services in one batch.
  void ChangeAll(const std::function<CountedService(int number)>& next) {
    std::vector<CountedService> changed;
    for (int number = 0; number < static_cast<int>(counted_services()); ++number) {
      changed.push_back(next(number));
    }
    ASSERT_OK(Change(changed));
    ASSERT_OK(LetTrafficFlow());
  }
};

// Ports move between a block, elements of their own, and single ports. Half of the Services have
// session affinity.
TEST_F(PortRangesLossTest, PortsMoveToOtherMaps) {
  const int64_t rewrites = Rewrites(30);
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    ASSERT_NO_FATAL_FAILURE(ChangeAll([&](int number) {
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
    }));
  }
  ExpectNoLoss("port ranges, ports move to other maps", rewrites);
}

}  // namespace
}  // namespace svcmap::testing
