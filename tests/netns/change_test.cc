// Tests that changes affect new connections and keep existing connections.
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/netns/listing.h"
#include "tests/netns/service_world.h"
#include "tests/support/chance.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

class ChangeTest : public ServiceFlowTest {
 protected:
  // Returns the endpoints that answer. One of two endpoints is missed with a probability of at most
  // kFalseFailure.
  std::set<std::string> Answering(const Address& address, uint16_t port = 80) {
    const Tally tally = AskMany(pod_b().netns(), To(address, port), TriesToReachAll(2));
    EXPECT_EQ(tally.answered, TriesToReachAll(2)) << tally.ToString();
    std::set<std::string> names;
    for (const auto& [name, count] : tally.by_server) names.insert(name);
    return names;
  }
  using Names = std::set<std::string>;
};
INSTANTIATE_FLOWS(ChangeTest);

TEST_P(ChangeTest, EndpointsComeGoAndAreReplaced) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const std::vector<std::pair<std::vector<const Host*>, Names>> steps = {
      {{&pod_a()}, {"pod-a"}},
      {{&pod_a(), &remote_pod()}, {"pod-a", "remote-pod"}},
      {{&remote_pod()}, {"remote-pod"}},
      {{&pod_a()}, {"pod-a"}},
      {{&remote_pod(), &pod_a()}, {"pod-a", "remote-pod"}}};
  for (const auto& [hosts, names] : steps) {
    ASSERT_OK(agent().Apply(WebSlices("shop/web", hosts)));
    ASSERT_OK(FlushConntrack(node().netns()));
    EXPECT_EQ(Answering(kWeb), names);
  }
}

TEST_P(ChangeTest, S28_TheSliceMayComeBeforeItsService) {
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_a()})));
  EXPECT_NO_ANSWER(Ask(pod_b(), InVain(kWeb)));
  ASSERT_OK(agent().Apply({Web("shop/web", kWeb)}));
  EXPECT_ANSWERED_BY(Ask(pod_b(), To(kWeb)), "pod-a", At(pod_b()));
}

// S-16: the older Service owns the address. When the older Service is deleted, the younger Service
// takes over the address.
TEST_P(ChangeTest, S16_OfTwoServicesWithOneAddressTheOlderOneServes) {
  const Objects older = {ExternalWeb("shop/older", ClusterIp(11)).CreatedAt(1000)};
  const Objects younger = {ExternalWeb("shop/younger", ClusterIp(12)).CreatedAt(2000)};
  const Objects slices =
      WebSlices("shop/older", {&pod_a()}) + WebSlices("shop/younger", {&remote_pod()});
  for (const Objects& order : {older + younger, younger + older}) {
    ASSERT_OK(agent().Replace(Basics() + slices));
    for (const v1::Object& service : order) ASSERT_OK(agent().Apply({service}));
    ASSERT_OK(FlushConntrack(node().netns()));
    EXPECT_EQ(Answering(kExternalIp), Names{"pod-a"});
    EXPECT_EQ(Answering(kLoadBalancerIp), Names{"pod-a"});
    EXPECT_EQ(Answering(kNode, kNodePort), Names{"pod-a"});
    EXPECT_EQ(Answering(ClusterIp(12)), Names{"remote-pod"});  // Only one Service has this address.
    ASSERT_OK(agent().Remove({ServiceRef("shop/older")}));
    ASSERT_OK(FlushConntrack(node().netns()));
    EXPECT_EQ(Answering(kExternalIp), Names{"remote-pod"});
    EXPECT_EQ(Answering(kLoadBalancerIp), Names{"remote-pod"});
    EXPECT_EQ(Answering(kNode, kNodePort), Names{"remote-pod"});
  }
}

// S-16: a Service that is applied later does not take over the addresses of an existing Service,
// even after a restart of the agent.
TEST_P(ChangeTest, S16_AServiceWithoutTimestampTakesNoAddressOfAWorkingOne) {
  const absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_OK(folder);
  const std::vector<std::string> flags = {"--state-dir", folder->path()};
  const Objects slices =
      WebSlices("shop/works", {&pod_a()}) + WebSlices("shop/new", {&remote_pod()});
  for (const Objects& works : {Objects{ExternalWeb("shop/works", ClusterIp(11))},
                               Objects{ExternalWeb("shop/works", ClusterIp(11)).CreatedAt(2000)}}) {
    ASSERT_OK(world()->RestartAgent(flags, Basics() + slices + works));
    // The new Service is first by name.
    const Objects both = works + Objects{ExternalWeb("shop/new", ClusterIp(12))};
    ASSERT_OK(agent().Apply(both));
    for (const bool restarted : {false, true}) {
      SCOPED_TRACE(restarted);
      if (restarted) {
        ASSERT_OK(world()->RestartAgent(flags, Basics() + slices + both));
      }
      EXPECT_EQ(Answering(kExternalIp), Names{"pod-a"});
      EXPECT_EQ(Answering(kLoadBalancerIp), Names{"pod-a"});
      EXPECT_EQ(Answering(kNode, kNodePort), Names{"pod-a"});
      EXPECT_EQ(Answering(ClusterIp(12)), Names{"remote-pod"});
    }
    ASSERT_OK(agent().Replace(Basics()));
  }
  ASSERT_OK(world()->RestartAgent({}));
}

// One transaction moves an address between Services. The address must still exist regardless of the
// order of the two changes.
TEST_P(ChangeTest, AddressesMoveBetweenServicesInOneBatch) {
  const Objects one = {ExternalWeb("shop/one", ClusterIp(11))};
  const Objects two = {Web("shop/two", ClusterIp(12))};
  const Objects one_after = {Web("shop/one", ClusterIp(12))};
  const Objects two_after = {ExternalWeb("shop/two", ClusterIp(11))};
  for (const bool endpoints : {true, false}) {
    const Objects slices =
        endpoints ? WebSlices("shop/one", {&pod_a()}) + WebSlices("shop/two", {&remote_pod()})
                  : Objects();
    for (const Objects& swap : {one_after + two_after, two_after + one_after}) {
      ASSERT_OK(agent().Replace(Basics() + one + two + slices));
      ASSERT_OK(agent().Apply(swap));
      ASSERT_OK(FlushConntrack(node().netns()));
      const std::pair<Address, uint16_t> seconds[] = {
          {ClusterIp(11), 80}, {kExternalIp, 80}, {kLoadBalancerIp, 80}, {kNode, kNodePort}};
      if (endpoints) {
        EXPECT_EQ(Ask(pod_b(), To(ClusterIp(12))).server, "pod-a");
        for (const auto& [address, port] : seconds) {
          EXPECT_EQ(Ask(pod_b(), To(address, port)).server, "remote-pod") << address.v4;
        }
      } else {
        EXPECT_REJECTED(Ask(pod_b(), To(ClusterIp(12))));
        for (const auto& [address, port] : seconds) {
          EXPECT_REJECTED(Ask(pod_b(), To(address, port))) << address.v4;
        }
      }
    }
  }
}

TEST_P(ChangeTest, S97_TheHairpinOfASharedEndpointOutlivesOneOfItsServices) {
  const Address second = ClusterIp(11);
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/second", second)} +
                          WebSlices("shop/web", {&pod_a()}) +
                          WebSlices("shop/second", {&pod_a()})));
  EXPECT_ANSWERED_BY(Ask(pod_a(), To(kWeb)), "pod-a", At(node()));
  EXPECT_ANSWERED_BY(Ask(pod_a(), To(second)), "pod-a", At(node()));
  ASSERT_OK(
      agent().Remove({ServiceRef("shop/web"), SliceRef("shop/web-v4"), SliceRef("shop/web-v6")}));
  EXPECT_ANSWERED_BY(Ask(pod_a(), To(second)), "pod-a", At(node()));
}

using OpenFlowTest = ServiceFamilyTest;
INSTANTIATE_FAMILIES(OpenFlowTest);

class RulesetTest : public ServiceTest {};

TEST_F(RulesetTest, S138_S353_ServicesChangeOnlyElements) {
  ASSERT_OK_AND_ASSIGN(const std::string rules, Nft(node().netns(), "-t list ruleset"));
  const auto expect_the_same_rules = [&](const char* when) {
    const auto now = Nft(node().netns(), "-t list ruleset");
    ASSERT_OK(now);
    EXPECT_EQ(*now, rules) << when;
    ExpectAppliedIsInTheKernel(agent(), node().netns());
  };
  Objects objects = {ExternalWeb("shop/web", kWeb)};
  for (int i = 11; i < 90; ++i) objects.push_back(Web(absl::StrCat("shop/s", i), ClusterIp(i)));
  ASSERT_OK(agent().Apply(objects + WebSlices("shop/web", {&pod_a(), &remote_pod()}) +
                          WebSlices("shop/s11", {&pod_b()})));
  expect_the_same_rules("Services");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&pod_b()}) + WebSlices("shop/s11", {})));
  expect_the_same_rules("endpoints");
  ASSERT_OK(agent().Replace(Basics()));
  expect_the_same_rules("no Services");
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, agent().GetStatus());
  for (const v1::MapCount& map : status.maps()) {
    if (map.name() != "service-ips" && map.name() != "endpoints") continue;
    EXPECT_EQ(map.elements(), 0u) << map.ShortDebugString();
  }
}

TEST_P(OpenFlowTest, S95_S101_AnOpenConnectionOutlivesItsEndpointAndItsService) {
  ASSERT_OK(
      agent().Apply(Objects{ExternalWeb("shop/web", kWeb)} + WebSlices("shop/web", {&pod_a()})));
  const std::vector<Request> requests = {{.destination = kWeb.in(v6()), .port = 80},
                                         {.destination = kExternalIp.in(v6()), .port = 80},
                                         {.destination = kNode.in(v6()), .port = kNodePort}};
  std::vector<TcpFlow> flows;
  for (const Host* from : {&pod_b(), &client(), &node()}) {
    for (const Request& request : requests) {
      ASSERT_OK_AND_ASSIGN(TcpFlow flow, TcpFlow::Open(from->netns(), request));
      flows.push_back(std::move(flow));
    }
  }
  const auto all_flow = [&](const char* when) {
    for (TcpFlow& flow : flows) EXPECT_OK(flow.Exchange(100'000)) << when;
  };
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {&remote_pod()})));
  all_flow("replaced endpoint");
  EXPECT_EQ(Ask(pod_b().netns(), requests[0]).server, "remote-pod");
  ASSERT_OK(agent().Apply(WebSlices("shop/web", {})));
  all_flow("no endpoints");
  for (const Request& request : requests) EXPECT_REJECTED(Ask(pod_b().netns(), request));
  ASSERT_OK(agent().Remove({ServiceRef("shop/web")}));
  all_flow("no Service");
}

}  // namespace
}  // namespace svcmap::testing
