// Tests of endpoint selection. The test tables contain the examples from docs/specification.md,
// section 2, with the same numbers. In endpoint names, L means local and R means remote. The suffix
// r means ready, st means serving and terminating, and x means neither ready nor serving.
#include "proxy/resolve/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::TestParamInfo;
using ::testing::TestWithParam;
using ::testing::ValuesIn;

using Names = std::vector<std::string>;

Names AddressTexts(const std::vector<EndpointAddress>& endpoints) {
  Names texts;
  for (const EndpointAddress& endpoint : endpoints) {
    texts.push_back(endpoint.ip.ToString() + ":" + std::to_string(endpoint.port));
  }
  return texts;
}

ServiceEntry Entry(const AService& service, const std::vector<ASlice>& slices) {
  ServiceEntry entry = {.service = service.Build()};
  for (const ASlice& slice : slices)
    EXPECT_TRUE(entry.slices.insert(slice.Build()).second) << "names must differ";
  return entry;
}

ASlice SliceOfNs(const std::string& name = "ns/a-1") { return ASlice(name, "ns/a"); }

const ServicePort kPort = {.port = 80};
const ServicePort kWithNodePort = {.port = 80, .node_port = 30080};
const NodePlace kPlace = {.name = "n1", .zone = "za"};

// An endpoint and its name in the test table.
struct Given {
  std::string name;
  EndpointConditions conditions = kReady;
  bool local = false;
  EndpointHints hints = {};
};

const Given kLr = {"Lr", kReady, true}, kRr = {"Rr", kReady};
const Given kLst = {"Lst", kServingTerminating, true}, kRst = {"Rst", kServingTerminating};
const Given kLx = {"Lx", kDown, true}, kRx = {"Rx", kDownTerminating};

void AddTo(ASlice& slice, const Given& given, size_t index) {
  slice.Endpoint("10.0.0." + std::to_string(index + 1), given.conditions, given.local);
  if (given.hints != EndpointHints()) slice.Hinted(given.hints);
}

struct Resolved {
  Names cluster, local, reachable_here;
  bool any = false;
  TopologyMode topology = TopologyMode::kNone;

  friend bool operator==(const Resolved&, const Resolved&) = default;
};

Resolved Named(const ResolvedEndpoints& resolved, const std::vector<Given>& given) {
  const auto names = [&](const std::vector<EndpointAddress>& endpoints) {
    Names names;
    for (const EndpointAddress& endpoint : endpoints) {
      names.push_back(given.at(endpoint.ip.bytes()[3] - 1u).name);
    }
    return names;
  };
  return {names(resolved.cluster), names(resolved.local), names(resolved.reachable_here),
          resolved.any, resolved.topology};
}

// Resolves the endpoints and returns the resulting sets with the names in `given`. The result must
// not depend on the order of the endpoints or on their distribution among EndpointSlices.
Resolved Resolve(const AService& service, const std::vector<Given>& given,
                 const ServicePort& port = kWithNodePort, const NodePlace& node = kPlace) {
  ASlice all = SliceOfNs().Port(80), odd = SliceOfNs("ns/a-2").Port(80),
         even = SliceOfNs("ns/a-3").Port(80);
  for (size_t i = 0; i < given.size(); ++i) AddTo(all, given[i], i);
  for (size_t i = given.size(); i-- > 0;) AddTo(i % 2 == 0 ? even : odd, given[i], i);
  const auto resolve = [&](const std::vector<ASlice>& slices) {
    return Named(ResolveEndpoints(Entry(service, slices), Family::kIpv4, port, node), given);
  };
  const Resolved resolved = resolve({all});
  EXPECT_TRUE(resolve({odd, even}) == resolved) << "depends on the slices";
  return resolved;
}

AService Policies(TrafficPolicy internal, TrafficPolicy external) {
  AService service("ns/a");
  if (internal == TrafficPolicy::kLocal) service.InternalLocal();
  if (external == TrafficPolicy::kLocal) service.ExternalLocal();
  return service;
}

constexpr TrafficPolicy kCluster = TrafficPolicy::kCluster;
constexpr TrafficPolicy kLocal = TrafficPolicy::kLocal;

template <typename Row>
std::string RowName(const TestParamInfo<Row>& info) {
  return info.param.name;
}

// S-30, S-31: the endpoint sets that are computed for one local and one remote endpoint.
struct PolicyRow {
  const char* name;
  AService service;
  ServicePort port = kPort;
  Names cluster, local;

  friend std::ostream& operator<<(std::ostream& out, const PolicyRow& row) {
    return out << row.name;
  }
};

class EndpointPoliciesTest : public TestWithParam<PolicyRow> {};

TEST_P(EndpointPoliciesTest, DecideWhichSetsAreComputed) {
  const PolicyRow& row = GetParam();
  const Resolved resolved = Resolve(row.service, {kLr, kRr}, row.port);
  EXPECT_EQ(resolved.cluster, row.cluster);
  EXPECT_EQ(resolved.local, row.local);
  EXPECT_TRUE(resolved.any);
  EXPECT_THAT(resolved.reachable_here, ElementsAre("Lr"));
}

const Names kBoth = {"Lr", "Rr"}, kLocalOne = {"Lr"}, kNotComputed = {};

const PolicyRow kPolicyRows[] = {
    {"S30_Cluster", Policies(kCluster, kCluster), kPort, kBoth, kNotComputed},
    {"S30_ClusterNodePort", Policies(kCluster, kCluster), kWithNodePort, kBoth, kNotComputed},
    {"S30_InternalLocal", Policies(kLocal, kCluster), kPort, kNotComputed, kLocalOne},
    {"S30_InternalLocalNodePort", Policies(kLocal, kCluster), kWithNodePort, kBoth, kLocalOne},
    {"S30_InternalLocalExternalIp", Policies(kLocal, kCluster).External("192.0.2.7"), kPort, kBoth,
     kLocalOne},
    {"S30_InternalLocalLoadBalancer", Policies(kLocal, kCluster).LoadBalancer("192.0.2.8"), kPort,
     kBoth, kLocalOne},
    {"S30_InternalLocalExternalIpOfTheOtherFamily",
     Policies(kLocal, kCluster).External("fd01::7").LoadBalancer("fd01::8"), kPort, kNotComputed,
     kLocalOne},
    {"S30_BothLocal", Policies(kLocal, kLocal), kPort, kNotComputed, kLocalOne},
    {"S30_BothLocalNodePort", Policies(kLocal, kLocal), kWithNodePort, kBoth, kLocalOne},
    {"S31_ExternalLocal", Policies(kCluster, kLocal), kPort, kBoth, kNotComputed},
    {"S31_ExternalLocalNodePort", Policies(kCluster, kLocal), kWithNodePort, kBoth, kLocalOne},
    {"S31_ExternalLocalExternalIp", Policies(kCluster, kLocal).External("192.0.2.7"), kPort, kBoth,
     kLocalOne},
    {"S31_ExternalLocalLoadBalancer", Policies(kCluster, kLocal).LoadBalancer("192.0.2.8"), kPort,
     kBoth, kLocalOne},
    {"S31_ExternalLocalAddressesOfTheOtherFamily",
     Policies(kCluster, kLocal).External("fd01::7").LoadBalancer("fd01::8"), kPort, kBoth,
     kNotComputed},
};

INSTANTIATE_TEST_SUITE_P(Rows, EndpointPoliciesTest, ValuesIn(kPolicyRows), RowName<PolicyRow>);

// The rows S-39 to S-51 of the specification, without topology hints.
struct ConditionsRow {
  const char* name;
  std::vector<Given> given;
  Names cluster, local;
  bool any = true;

  friend std::ostream& operator<<(std::ostream& out, const ConditionsRow& row) {
    return out << row.name;
  }
};

// Returns the local endpoints of both lists (S-36).
Names LocalOf(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  std::erase_if(names, [](const std::string& name) { return name[0] != 'L'; });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class EndpointConditionsTest : public TestWithParam<ConditionsRow> {
 protected:
  static Resolved ResolveRow(TrafficPolicy internal, TrafficPolicy external,
                             const ServicePort& port) {
    Resolved resolved = Resolve(Policies(internal, external), GetParam().given, port);
    std::sort(resolved.reachable_here.begin(), resolved.reachable_here.end());
    return resolved;
  }
};

TEST_P(EndpointConditionsTest, BothSets) {
  const Resolved resolved = ResolveRow(kCluster, kLocal, kWithNodePort);
  EXPECT_EQ(resolved.cluster, GetParam().cluster);
  EXPECT_EQ(resolved.local, GetParam().local);
  EXPECT_EQ(resolved.any, GetParam().any);
  EXPECT_EQ(resolved.reachable_here, LocalOf(GetParam().cluster, GetParam().local));
}

TEST_P(EndpointConditionsTest, S50_OnlyTheLocalSet) {
  const Resolved resolved = ResolveRow(kLocal, kCluster, kPort);
  EXPECT_THAT(resolved.cluster, IsEmpty());
  EXPECT_EQ(resolved.local, GetParam().local);
  EXPECT_EQ(resolved.any, GetParam().any);
  EXPECT_EQ(resolved.reachable_here, LocalOf({}, GetParam().local));
}

TEST_P(EndpointConditionsTest, S51_OnlyTheClusterSet) {
  const std::pair<TrafficPolicy, ServicePort> cases[] = {{kCluster, kWithNodePort},
                                                         {kLocal, kPort}};
  for (const auto& [external, port] : cases) {
    const Resolved resolved = ResolveRow(kCluster, external, port);
    EXPECT_EQ(resolved.cluster, GetParam().cluster);
    EXPECT_THAT(resolved.local, IsEmpty());
    EXPECT_EQ(resolved.any, GetParam().any);
    // S-35: `any` is true if the cluster endpoint set is not empty.
    EXPECT_EQ(resolved.any, !resolved.cluster.empty());
    EXPECT_EQ(resolved.reachable_here, LocalOf(GetParam().cluster, {}));
  }
}

const ConditionsRow kConditionsRows[] = {
    {"S39_None", {}, {}, {}, false},
    {"S40_LocalAndRemoteReady", {kLr, kRr}, {"Lr", "Rr"}, {"Lr"}},
    {"S41_RemoteReady", {kRr}, {"Rr"}, {}},
    {"S42_ReadyBeforeTerminating", {kLr, kLst, kRr, kRst}, {"Lr", "Rr"}, {"Lr"}},
    {"S43_LocalTerminatingRemoteReady", {kLst, kRr}, {"Rr"}, {"Lst"}},
    {"S44_OnlyTerminating", {kLst, kRst}, {"Lst", "Rst"}, {"Lst"}},
    {"S45_OnlyRemoteTerminating", {kRst}, {"Rst"}, {}},
    {"S46_NeitherServes", {kLx, kRx}, {}, {}, false},
    {"S46_NeitherServesOtherWayRound",
     {{"Lx", kDownTerminating, true}, {"Rx", kDown}},
     {},
     {},
     false},
    {"S47_LocalDownRemoteTerminating", {kLx, kRst}, {"Rst"}, {}},
    {"S48_ServingOnly", {{"Ls", kServingOnly, true}}, {}, {}, false},
    {"S49_TerminatingAlone", {kLst}, {"Lst"}, {"Lst"}},
    {"S24_ReadyIsTakenVerbatim", {{"Lrt", kReadyTerminating, true}, kRst}, {"Lrt"}, {"Lrt"}},
    {"S33_TerminatingNotMixedWithServingOnly",
     {kLst, {"Rs", kServingOnly}, kRst},
     {"Lst", "Rst"},
     {"Lst"}},
    {"S34_LocalFallbackDespiteRemoteReady", {kLst, kLx, kRr, kRst}, {"Rr"}, {"Lst"}},
    {"S34_LocalReadyAlone", {kLr, kLst, kRx}, {"Lr"}, {"Lr"}},
    {"S35_EndpointsWithoutLocalOnes", {kLx, kRr}, {"Rr"}, {}},
    {"S36_BothSetsReachable", {kLst, kRr, kLx}, {"Rr"}, {"Lst"}},
};

INSTANTIATE_TEST_SUITE_P(Rows, EndpointConditionsTest, ValuesIn(kConditionsRows),
                         RowName<ConditionsRow>);

// The rows S-52 to S-62 of the specification, and the effect of topology hints in S-32 to S-36.
struct TopologyRow {
  const char* name;
  std::vector<Given> given;
  Names cluster;
  TopologyMode topology;
  NodePlace node = kPlace;
  AService service = Policies(kCluster, kCluster);
  Names local = {};
  Names reachable_here = {};

  friend std::ostream& operator<<(std::ostream& out, const TopologyRow& row) {
    return out << row.name;
  }
};

class EndpointTopologyTest : public TestWithParam<TopologyRow> {};

TEST_P(EndpointTopologyTest, Sets) {
  const TopologyRow& row = GetParam();
  const Resolved resolved = Resolve(row.service, row.given, kWithNodePort, row.node);
  EXPECT_EQ(resolved.cluster, row.cluster);
  EXPECT_EQ(resolved.topology, row.topology);
  EXPECT_EQ(resolved.local, row.local);
  EXPECT_EQ(resolved.reachable_here, row.reachable_here);
  EXPECT_EQ(resolved.any, !resolved.cluster.empty());
}

Given Zoned(const char* name, Names zones, EndpointConditions conditions = kReady,
            bool local = false) {
  return {name, conditions, local, {.zones = std::move(zones), .nodes = {}}};
}

Given Noded(const char* name, Names nodes, Names zones = {}) {
  return {name, kReady, false, {.zones = std::move(zones), .nodes = std::move(nodes)}};
}

constexpr TopologyMode kNoMode = TopologyMode::kNone;
constexpr TopologyMode kSameNode = TopologyMode::kSameNode;
constexpr TopologyMode kSameZone = TopologyMode::kSameZone;

const Given kA = Zoned("A", {"za"}), kB = Zoned("B", {"zb"}), kC = Zoned("C", {"zc"}),
            kD = Zoned("D", {"za"});
const std::vector<Given> kNodesAndZones = {Noded("A", {"n1"}, {"za"}), Noded("B", {"n2"}, {"zb"}),
                                           Noded("C", {"n3"}, {"zc"}), Noded("D", {"n4"}, {"za"})};
const Names kAll = {"A", "B", "C", "D"};

const TopologyRow kTopologyRows[] = {
    {"S52_SameZone", {kA, kB, kC, kD}, {"A", "D"}, kSameZone},
    {"S53_OneOfTheZoneDown", {kA, kB, kC, Zoned("D", {"za"}, kDown)}, {"A"}, kSameZone},
    {"S54_NoEndpointReadyInTheZone",
     {Zoned("A", {"za"}, kDown), kB, kC, Zoned("D", {"za"}, kServingTerminating)},
     {"B", "C"},
     kNoMode},
    {"S55_OneWithoutHint", {kA, kB, {"C"}, kD}, kAll, kNoMode},
    {"S56_SeveralZonesEach",
     {Zoned("A", {"za", "zb", "zc"}), Zoned("B", {"zb", "zc"}), Zoned("C", {"zb", "zd"}),
      Zoned("D", {"zc"})},
     {"A", "B", "D"},
     kSameZone,
     {"n1", "zc"}},
    {"S57_ZoneOfTheNodeUnknown", {kA, kB, kC, kD}, kAll, kNoMode, {"n1", ""}},
    {"S57_NoHintForTheZoneOfTheNode", {kA, kB, kC, kD}, kAll, kNoMode, {"n1", "zx"}},
    {"S58_SameNode", kNodesAndZones, {"A"}, kSameNode},
    {"S59_OneWithNeitherHint",
     {kNodesAndZones[0], {"B"}, kNodesAndZones[2], kNodesAndZones[3]},
     kAll,
     kNoMode},
    {"S60_NoHintForTheNodeFallsBackToItsZone", kNodesAndZones, {"A", "D"}, kSameZone, {"n0", "za"}},
    {"S61_ExternalLocal",
     {Zoned("A", {"za"}, kReady, true), Zoned("B", {"zb"}, kReady, true), Zoned("C", {"za"}),
      Zoned("D", {"zb"})},
     {"A", "C"},
     kSameZone,
     kPlace,
     Policies(kCluster, kLocal),
     {"A", "B"},
     {"A", "B"}},
    {"S62_InternalLocal",
     {Zoned("A", {"za"}, kReady, true), Zoned("B", {"zb"}, kReady, true), kC, kD},
     {"A", "D"},
     kSameZone,
     kPlace,
     Policies(kLocal, kCluster),
     {"A", "B"},
     {"A", "B"}},
    {"S32_TheUnreadyNeedNoHint",
     {kA, kB, {"C", kServingTerminating}, {"D", kDown}},
     {"A"},
     kSameZone},
    {"S32_TheUnreadyMatchNothing", {kB, Zoned("A", {"za"}, kServingTerminating)}, {"B"}, kNoMode},
    {"S32_NodeHintsBeforeZoneHints",
     {Noded("A", {"n2"}, {"za"}), Noded("B", {"n1", "n2"}, {"zb"})},
     {"B"},
     kSameNode},
    {"S32_OneWithoutNodeHintLeavesTheZoneHints",
     {Noded("A", {"n1"}, {"za"}), kB, kD},
     {"A", "D"},
     kSameZone},
    {"S32_NodeHintsAloneForAnotherNode",
     {Noded("A", {"n2"}), Noded("B", {"n3"})},
     {"A", "B"},
     kNoMode},
    {"S32_ANodeWithoutZoneMatchesNoHint", {Zoned("A", {""}), kB}, {"A", "B"}, kNoMode, {"n1", ""}},
    {"S32_ANodeWithoutNameMatchesNoHint",
     {Noded("A", {""}), Noded("B", {"n2"})},
     {"A", "B"},
     kNoMode,
     {"", "za"}},
    {"S33_TheTerminatingIgnoreHints",
     {Zoned("A", {"za"}, kServingTerminating), Zoned("B", {"zb"}, kServingTerminating)},
     {"A", "B"},
     kNoMode},
    {"S34_HintsNeverApplyToTheLocalSet",
     {kA, Zoned("B", {"zb"}, kReady, true)},
     {"A"},
     kSameZone,
     kPlace,
     Policies(kCluster, kLocal),
     {"B"},
     {"B"}},
    {"S36_OnlyThoseOfTheSetsAreReachable",
     {Zoned("A", {"za"}, kReady, true), Zoned("B", {"zb"}, kReady, true)},
     {"A"},
     kSameZone,
     kPlace,
     Policies(kCluster, kCluster),
     {},
     {"A"}},
};

INSTANTIATE_TEST_SUITE_P(Rows, EndpointTopologyTest, ValuesIn(kTopologyRows), RowName<TopologyRow>);

// Returns the addresses of a port's endpoints, merged from EndpointSlices.
Names Usable(const std::vector<ASlice>& slices, Family family = Family::kIpv4,
             const ServicePort& port = kPort) {
  return AddressTexts(
      ResolveEndpoints(Entry(AService("ns/a"), slices), family, port, kPlace).cluster);
}

TEST(EndpointsTest, S21_PortsMatchByNameAndProtocol) {
  const struct {
    const char* name;
    ServicePort port;
    Names usable;
  } cases[] = {
      {"same name", {.name = "http", .port = 80}, {"10.0.0.1:8080"}},
      {"numbers need not match", {.name = "dns", .port = 8080}, {"10.0.0.1:53"}},
      {"other protocol", {.name = "http", .protocol = Protocol::kUdp, .port = 80}, {}},
      {"UDP", {.name = "dns", .protocol = Protocol::kUdp, .port = 53}, {"10.0.0.1:5353"}},
      {"SCTP", {.name = "sig", .protocol = Protocol::kSctp, .port = 53}, {"10.0.0.1:36412"}},
      {"unnamed matches only unnamed", {.port = 80}, {"10.0.0.1:9"}},
      {"no such name", {.name = "https", .port = 80}, {}},
  };
  const ASlice slice = SliceOfNs()
                           .Port(8080, "http")
                           .Port(53, "dns")
                           .Port(5353, "dns", Protocol::kUdp)
                           .Port(36412, "sig", Protocol::kSctp)
                           .Port(9)
                           .Ready("10.0.0.1");
  for (const auto& c : cases) {
    EXPECT_EQ(Usable({slice}, Family::kIpv4, c.port), c.usable) << c.name;
  }
}

TEST(EndpointsTest, S19_SlicesOfTheOtherFamilyDoNotCount) {
  const ASlice v4 = SliceOfNs().Port(80).Ready("10.0.0.1");
  const ASlice v6 = ASlice("ns/a-2", "ns/a", Family::kIpv6).Port(80).Ready("fd00::1");
  EXPECT_THAT(Usable({v4, v6}, Family::kIpv4), ElementsAre("10.0.0.1:80"));
  EXPECT_THAT(Usable({v4, v6}, Family::kIpv6), ElementsAre("fd00::1:80"));
}

TEST(EndpointsTest, S22_SlicesMayGiveTheSamePortDifferentNumbers) {
  EXPECT_THAT(Usable({SliceOfNs().Port(8080).Ready("10.0.0.1"),
                      SliceOfNs("ns/a-2").Port(9090).Ready("10.0.0.1").Ready("10.0.0.2")}),
              ElementsAre("10.0.0.1:8080", "10.0.0.1:9090", "10.0.0.2:9090"));
}

TEST(EndpointsTest, S27_AreAscendingAndEachOnce) {
  EXPECT_THAT(Usable({SliceOfNs().Port(80).Ready("10.0.0.9").Ready("10.0.0.1"),
                      SliceOfNs("ns/a-2").Port(80).Ready("10.0.0.9").Ready("10.0.0.10")}),
              ElementsAre("10.0.0.1:80", "10.0.0.9:80", "10.0.0.10:80"));
}

TEST(EndpointsTest, S39_NoSlicesNoPortsOrNoAddressesMeanNoEndpoints) {
  EXPECT_THAT(Usable({}), IsEmpty());
  EXPECT_THAT(Usable({SliceOfNs().Port(80)}), IsEmpty());
  EXPECT_THAT(Usable({SliceOfNs().Ready("10.0.0.1")}), IsEmpty());
}

// Two EndpointSlices contain the same address with different conditions. The result does not depend
// on the order in which the EndpointSlices arrive.
TEST(EndpointsTest, S26_WhichOfTwoDuplicatesCounts) {
  const struct {
    const char* name;
    EndpointConditions a, b;
    Names usable;
  } cases[] = {
      {"ready over serving while terminating", kReady, kServingTerminating, {"10.0.0.1:80"}},
      {"down over serving while terminating", kDown, kServingTerminating, {}},
      {"down over ready while terminating", kDown, kReadyTerminating, {}},
      {"ready over down", kReady, kDown, {"10.0.0.1:80"}},
      {"of two terminating the serving one",
       kServingTerminating,
       kDownTerminating,
       {"10.0.0.1:80"}},
  };
  for (const auto& c : cases) {
    const ASlice a = SliceOfNs().Port(80).Endpoint("10.0.0.1", c.a);
    const ASlice b = SliceOfNs("ns/a-2").Port(80).Endpoint("10.0.0.1", c.b);
    EXPECT_EQ(Usable({a, b}), c.usable) << c.name;
    EXPECT_EQ(Usable({b, a}), c.usable) << c.name << ", the other way round";
  }
}

TEST(EndpointsTest, S26_OfDuplicatesOneOnThisNodeMakesItLocal) {
  const ASlice local = SliceOfNs().Port(80).Local("10.0.0.1");
  const ASlice remote = SliceOfNs("ns/a-2").Port(80).Ready("10.0.0.1");
  for (const auto& slices : {std::vector{local, remote}, std::vector{remote, local}}) {
    const ServiceEntry entry = Entry(Policies(kLocal, kCluster), slices);
    EXPECT_THAT(AddressTexts(ResolveEndpoints(entry, Family::kIpv4, kPort, kPlace).local),
                ElementsAre("10.0.0.1:80"));
  }
}

TEST(EndpointsTest, S26_OfDuplicatesTheHintsOfOneCountWhateverTheOrder) {
  const ASlice other = SliceOfNs("ns/a-2").Port(80).Ready("10.0.0.2").Hinted({.zones = {"za"}});
  const ASlice plain = SliceOfNs("ns/a-3").Port(80).Ready("10.0.0.1");
  const ASlice za = SliceOfNs("ns/a-4").Port(80).Ready("10.0.0.1").Hinted({.zones = {"za"}});
  const ASlice zb = SliceOfNs("ns/a-5").Port(80).Ready("10.0.0.1").Hinted({.zones = {"zb"}});
  const struct {
    const char* name;
    ASlice a, b;
    Names usable;
  } cases[] = {
      {"hinted over unhinted", zb, plain, {"10.0.0.2:80"}},
      {"the first by zone", za, zb, {"10.0.0.1:80", "10.0.0.2:80"}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Usable({other, c.a, c.b}), c.usable) << c.name;
    EXPECT_EQ(Usable({other, c.b, c.a}), c.usable) << c.name << ", the other way round";
  }
}

// An endpoint with weight 0 counts as not ready for new connections.
TEST(WeightlessEndpointsTest, AreInNoSet) {
  const AService service = Policies(kLocal, kLocal);
  const auto resolve = [&](const ASlice& slice) {
    return ResolveEndpoints(Entry(service, {slice}), Family::kIpv4, kWithNodePort, kPlace);
  };
  const ResolvedEndpoints some = resolve(SliceOfNs()
                                             .Port(80)
                                             .Local("10.0.0.1")
                                             .Weight(0)
                                             .Ready("10.0.0.2")
                                             .Hinted({.zones = {"za"}})
                                             .Ready("10.0.0.3")
                                             .Weight(0));
  EXPECT_THAT(AddressTexts(some.cluster), ElementsAre("10.0.0.2:80"));
  EXPECT_EQ(some.topology, TopologyMode::kSameZone) << "the drained ones have no hints (S-32)";
  EXPECT_THAT(some.local, IsEmpty());
  EXPECT_THAT(some.reachable_here, IsEmpty());
  EXPECT_TRUE(some.any) << "what has policy Local is dropped (S-76, S-80)";
  EXPECT_FALSE(some.any_ready_here);
  EXPECT_EQ(some.drained, 2u);

  // If no endpoint is ready, endpoints that are serving and terminating are used (S-33, S-34).
  // Endpoints with weight 0 are not used as a fallback either.
  const ResolvedEndpoints fallback = resolve(SliceOfNs()
                                                 .Port(80)
                                                 .Local("10.0.0.1")
                                                 .Weight(0)
                                                 .Endpoint("10.0.0.2", kServingTerminating, true)
                                                 .Endpoint("10.0.0.3", kServingTerminating, true)
                                                 .Weight(0));
  EXPECT_THAT(AddressTexts(fallback.cluster), ElementsAre("10.0.0.2:80"));
  EXPECT_THAT(AddressTexts(fallback.local), ElementsAre("10.0.0.2:80"));

  const ResolvedEndpoints none = resolve(
      SliceOfNs().Port(80).Local("10.0.0.1").Weight(0).Endpoint("10.0.0.2", kDown).Weight(0));
  EXPECT_FALSE(none.any) << "S-77, S-81: rejected";
  EXPECT_EQ(none.drained, 1u);
}

TEST(EndpointWeightsTest, StandBesideTheSetsWhereTheyDiffer) {
  const AService service = Policies(kCluster, kLocal);
  const auto resolve = [&](const ASlice& slice) {
    return ResolveEndpoints(Entry(service, {slice}), Family::kIpv4, kWithNodePort, kPlace);
  };
  const ResolvedEndpoints different =
      resolve(SliceOfNs().Port(80).Local("10.0.0.2").Ready("10.0.0.1").Weight(3).Local("10.0.0.3"));
  EXPECT_THAT(different.cluster_weights, ElementsAre(3, 1, 1));
  EXPECT_THAT(different.local_weights, IsEmpty()) << "both 1";
  const ResolvedEndpoints equal =
      resolve(SliceOfNs().Port(80).Local("10.0.0.1").Weight(7).Ready("10.0.0.2").Weight(7));
  EXPECT_THAT(equal.cluster_weights, IsEmpty());
  EXPECT_THAT(equal.local_weights, IsEmpty());
}

// Among duplicate endpoints, the conditions decide first (S-26), then the larger weight. The order
// of arrival has no effect.
TEST(EndpointWeightsTest, OfDuplicatesTheLargerOneCounts) {
  const AService service("ns/a");
  const ASlice other = SliceOfNs("ns/a-3").Port(80).Ready("10.0.0.2");
  const auto weights = [&](const ASlice& a, const ASlice& b) {
    return ResolveEndpoints(Entry(service, {a, other, b}), Family::kIpv4, kPort, kPlace)
        .cluster_weights;
  };
  const auto with = [](EndpointConditions conditions, uint16_t weight) {
    return SliceOfNs("ns/a-" + std::to_string(weight))
        .Port(80)
        .Endpoint("10.0.0.1", conditions)
        .Weight(weight);
  };
  EXPECT_THAT(weights(with(kReady, 2), with(kReady, 5)), ElementsAre(5, 1));
  EXPECT_THAT(weights(with(kReady, 5), with(kReady, 0)), ElementsAre(5, 1));
  EXPECT_THAT(weights(with(kReadyTerminating, 5), with(kReady, 2)), ElementsAre(2, 1));
}

// S-26 applies to the address, whatever the port numbers of the EndpointSlices.
TEST(PortRangeEndpointsTest, AnAddressWithSeveralPortsCountsOnce) {
  const ServicePort range{.port = 1000, .end_port = 2000};
  const auto resolve = [&](const ASlice& a, const ASlice& b) {
    return ResolveEndpoints(Entry(AService("ns/a"), {a, b}), Family::kIpv4, range, kPlace);
  };
  const auto at = [](int port, EndpointConditions conditions, uint16_t weight = 1) {
    return SliceOfNs("ns/a-" + std::to_string(port))
        .Port(port)
        .Endpoint("10.0.0.1", conditions)
        .Weight(weight);
  };
  const auto resolved = resolve(at(80, kReady, 2), at(81, kReady, 5).Ready("10.0.0.2"));
  EXPECT_THAT(AddressTexts(resolved.cluster), ElementsAre("10.0.0.1:0", "10.0.0.2:0"));
  EXPECT_THAT(resolved.cluster_weights, ElementsAre(5, 1));
  EXPECT_FALSE(resolve(at(80, kServingTerminating), at(81, kDown)).any);
  EXPECT_TRUE(resolve(at(80, kServingTerminating), at(81, kDownTerminating)).any);
}

}  // namespace
}  // namespace svcmap::proxy
