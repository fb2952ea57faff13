#include "proxy/localhost/nodeports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr uint16_t kNodePort = 30080;

EndpointAddress Pod(int number) { return {Ip("10.0.0." + std::to_string(number)), 8080}; }

AService NodePortWeb() {
  return AService("shop/web").At("10.96.0.1").Port(80, "http").NodePort(kNodePort);
}
ASlice HttpSlice() { return ASlice("shop/web-1", "shop/web").Port(8080, "http"); }

class LocalhostNodePortsTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }
  LocalhostNodePorts Of(const std::string& key, const NodePlace& place = {"n1", "za"}) const {
    return LocalhostNodePortsOf(store_.Find(key), store_.claims(), place, families_);
  }

  Store store_;
  bool families_[2] = {true, true};
};

TEST_F(LocalhostNodePortsTest, S113_EachTcpNodePortInTheFamiliesOfTheService) {
  const AService both = NodePortWeb().At("fd00:96::1");
  Apply({both, HttpSlice().Ready("10.0.0.2").Ready("10.0.0.1"),
         ASlice("shop/web-6", "shop/web", Family::kIpv6).Port(8080, "http").Ready("fd00::1")});
  const LocalhostNodePort v4{Family::kIpv4, kNodePort, {Pod(1), Pod(2)}, {}, 0};
  const LocalhostNodePort v6{Family::kIpv6, kNodePort, {{Ip("fd00::1"), 8080}}, {}, 0};
  EXPECT_THAT(Of("shop/web"), ElementsAre(v4, v6));
  families_[1] = false;
  EXPECT_THAT(Of("shop/web"), ElementsAre(v4));
  families_[0] = false;
  EXPECT_THAT(Of("shop/web"), IsEmpty());
}

TEST_F(LocalhostNodePortsTest, S113_NoOtherPorts) {
  EXPECT_THAT(Of("shop/web"), IsEmpty()) << "unknown";
  Apply({HttpSlice().Ready("10.0.0.1")});
  EXPECT_THAT(Of("shop/web"), IsEmpty()) << "only slices";
  Apply({AService("shop/web").At("10.96.0.1").Port(80, "http")});
  EXPECT_THAT(Of("shop/web"), IsEmpty()) << "no nodePort";
  Apply({NodePortWeb().NotProxied()});
  EXPECT_THAT(Of("shop/web"), IsEmpty()) << "not proxied";
  for (const Protocol protocol : {Protocol::kUdp, Protocol::kSctp}) {
    Apply({AService("shop/web").At("10.96.0.1").Port(80, "http", protocol).NodePort(kNodePort)});
    EXPECT_THAT(Of("shop/web"), IsEmpty()) << ProtocolName(protocol);
  }
}

TEST_F(LocalhostNodePortsTest, S113_WithoutEndpointsThePortStays) {
  Apply({NodePortWeb()});
  EXPECT_THAT(Of("shop/web"), ElementsAre(LocalhostNodePort{Family::kIpv4, kNodePort, {}, {}, 0}));
}

TEST_F(LocalhostNodePortsTest, S113_PolicyLocalWeightsAndAffinity) {
  const ASlice slice = HttpSlice()
                           .Local("10.0.0.1")
                           .Weight(3)
                           .Ready("10.0.0.2")
                           .Weight(5)
                           .Local("10.0.0.3")
                           .Weight(7);
  Apply({NodePortWeb().Affinity(60), slice});
  EXPECT_THAT(Of("shop/web"),
              ElementsAre(LocalhostNodePort{
                  Family::kIpv4, kNodePort, {Pod(1), Pod(2), Pod(3)}, {3, 5, 7}, 60}));
  Apply({NodePortWeb().ExternalLocal()});
  EXPECT_THAT(Of("shop/web"), ElementsAre(LocalhostNodePort{
                                  Family::kIpv4, kNodePort, {Pod(1), Pod(3)}, {3, 7}, 0}));
}

TEST_F(LocalhostNodePortsTest, S113_Topology) {
  Apply({NodePortWeb(), HttpSlice()
                            .Ready("10.0.0.1")
                            .Hinted({.zones = {"za"}})
                            .Ready("10.0.0.2")
                            .Hinted({.zones = {"zb"}})});
  EXPECT_THAT(Of("shop/web")[0].endpoints, ElementsAre(Pod(1)));
  EXPECT_THAT(Of("shop/web", {"n1", "zb"})[0].endpoints, ElementsAre(Pod(2)));
  EXPECT_THAT(Of("shop/web", {"n1", ""})[0].endpoints, ElementsAre(Pod(1), Pod(2)));
}

TEST_F(LocalhostNodePortsTest, S16_S113_TheOlderOfTwoServicesGetsTheNodePort) {
  Apply({NodePortWeb().Created(2),
         AService("shop/old").At("10.96.0.2").Port(80).NodePort(kNodePort).Created(1)});
  EXPECT_THAT(Of("shop/web"), IsEmpty());
  EXPECT_EQ(Of("shop/old").size(), 1u);
}

class EndpointPickerTest : public ::testing::Test {
 protected:
  void Set(int pods, std::vector<uint16_t> weights = {}, uint32_t affinity_seconds = 0) {
    LocalhostNodePort node_port{Family::kIpv4, kNodePort, {}, std::move(weights), affinity_seconds};
    for (int i = 1; i <= pods; ++i) node_port.endpoints.push_back(Pod(i));
    picker_.Set(std::move(node_port));
  }
  std::optional<EndpointAddress> Pick(uint64_t random, std::vector<EndpointAddress> tried = {}) {
    return picker_.Pick(tried, random, now_);
  }

  EndpointPicker picker_;
  EndpointPicker::Time now_;
};

TEST_F(EndpointPickerTest, WithoutEndpointsThereIsNone) {
  EXPECT_EQ(Pick(0), std::nullopt);
  Set(0);
  EXPECT_EQ(Pick(7), std::nullopt);
}

TEST_F(EndpointPickerTest, EachEndpointHasTheSameShareWithoutWeights) {
  Set(3);
  std::map<EndpointAddress, int> picks;
  for (uint64_t random = 0; random < 300; ++random) ++picks[*Pick(random)];
  EXPECT_THAT(picks,
              ElementsAre(std::pair(Pod(1), 100), std::pair(Pod(2), 100), std::pair(Pod(3), 100)));
}

TEST_F(EndpointPickerTest, SharesFollowTheWeights) {
  Set(3, {1, 2, 5});
  std::map<EndpointAddress, int> picks;
  for (uint64_t random = 0; random < 800; ++random) ++picks[*Pick(random)];
  EXPECT_THAT(picks,
              ElementsAre(std::pair(Pod(1), 100), std::pair(Pod(2), 200), std::pair(Pod(3), 500)));
}

TEST_F(EndpointPickerTest, TriedEndpointsAreNotPickedAgain) {
  Set(3, {1, 1000, 1});
  for (uint64_t random = 0; random < 100; ++random) {
    EXPECT_THAT(Pick(random, {Pod(2), Pod(1)}), Optional(Pod(3)));
    EXPECT_EQ(Pick(random, {Pod(2), Pod(1), Pod(3)}), std::nullopt);
  }
}

TEST_F(EndpointPickerTest, AffinityLastsFromTheLatestConnection) {
  Set(3, {}, 60);
  picker_.Connected(Pod(2), now_);
  for (uint64_t random = 0; random < 9; ++random) EXPECT_THAT(Pick(random), Optional(Pod(2)));
  now_ += seconds(59);
  picker_.Connected(Pod(2), now_);
  now_ += seconds(59);
  EXPECT_THAT(Pick(0), Optional(Pod(2)));
  now_ += seconds(1);
  EXPECT_THAT(Pick(0), Optional(Pod(1)));
}

TEST_F(EndpointPickerTest, AffinityDoesNotPreventOtherAttempts) {
  Set(2, {}, 60);
  picker_.Connected(Pod(2), now_);
  EXPECT_THAT(Pick(1, {Pod(2)}), Optional(Pod(1)));
  picker_.Connected(Pod(1), now_);
  EXPECT_THAT(Pick(1), Optional(Pod(1))) << "the record has the endpoint that accepted";
}

TEST_F(EndpointPickerTest, AffinityEndsWithTheEndpointOrTheSetting) {
  Set(3, {}, 60);
  picker_.Connected(Pod(3), now_);
  Set(2, {}, 60);
  EXPECT_THAT(Pick(0), Optional(Pod(1)));
  picker_.Connected(Pod(2), now_);
  Set(2);
  EXPECT_THAT(Pick(0), Optional(Pod(1)));
  Set(2, {}, 60);
  EXPECT_THAT(Pick(0), Optional(Pod(1))) << "no record is left";
  picker_.Connected(Pod(3), now_);
  EXPECT_THAT(Pick(0), Optional(Pod(1))) << "an endpoint that is gone is not recorded";
}

}  // namespace
}  // namespace svcmap::proxy
