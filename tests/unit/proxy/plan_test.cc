#include "proxy/diff/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "proxy/desired/ranges.h"
#include "proxy/diff/removals.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Returns the rows of a Service with one port at 10.96.0.`number`. `number` is also the Service's
// group.
ServiceRows Rows(uint8_t number, const std::vector<std::string>& endpoints,
                 const std::vector<std::string>& hairpins = {}) {
  const IpAddress address = Ip("10.96.0." + std::to_string(number));
  PortRows port{.port = 80,
                .addresses = {{address, 80, DispatchKind::kInternal}},
                .any = !endpoints.empty(),
                .cluster = {endpoints.empty() ? 0u : number, {}}};
  for (const std::string& endpoint : endpoints) port.cluster.slots.push_back({Ip(endpoint), 8080});
  for (const std::string& endpoint : hairpins) port.hairpins.push_back({Ip(endpoint), 8080});
  return {.cluster_ips = {address}, .ports = {port}};
}

struct PlanStep {
  std::string key;
  const ServiceRows* before;
  const ServiceRows* after;
};

const ServiceRows kNothing;

Plan Make(const std::vector<PlanStep>& steps, const SharedCounts& shared = {}) {
  static SharedCounts counts;
  counts = shared;
  Plan plan(counts);
  for (const PlanStep& step : steps) plan.AddService(step.key, step.before, *step.after);
  plan.Finish();
  return plan;
}

SharedCounts SharedOf(const std::vector<const ServiceRows*>& services) {
  std::vector<PlanStep> steps;
  for (size_t i = 0; i < services.size(); ++i) {
    steps.push_back({std::to_string(i), nullptr, services[i]});
  }
  return Make(steps).shared_changes();
}

TEST(PlanTest, ANewServiceIsOnlyAdded) {
  const ServiceRows web = Rows(1, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.2"});
  EXPECT_THAT(Operations(Make({{"ns/web", nullptr, &web}}).transaction()),
              UnorderedElementsAre("+ endpoints 0x1 . 0 : 10.0.0.1 . 8080",
                                   "+ endpoints 0x1 . 1 : 10.0.0.2 . 8080",
                                   "+ service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1 \"ns/web:\"",
                                   "+ cluster-ips 10.96.0.1",
                                   "+ hairpin-connections 10.0.0.2 . 10.0.0.2 . tcp . 8080"));
}

TEST(PlanTest, AnUnchangedServiceCostsNothing) {
  const ServiceRows web = Rows(1, {"10.0.0.1"}, {"10.0.0.1"});
  EXPECT_TRUE(Make({{"ns/web", &web, &web}}, SharedOf({&web})).transaction().empty());
}

TEST(PlanTest, AReplacedEndpointCostsTwoElements) {
  const ServiceRows before = Rows(1, {"10.0.0.1", "10.0.0.2", "10.0.0.3"});
  const ServiceRows after = Rows(1, {"10.0.0.1", "10.0.0.9", "10.0.0.3"});
  EXPECT_THAT(Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction()),
              ElementsAre("- endpoints 0x1 . 1", "+ endpoints 0x1 . 1 : 10.0.0.9 . 8080"));
}

TEST(PlanTest, OneEndpointMoreCostsItselfAndTheDescriptors) {
  const ServiceRows before = Rows(1, {"10.0.0.1"});
  const ServiceRows after = Rows(1, {"10.0.0.1", "10.0.0.2"});
  EXPECT_THAT(Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction()),
              UnorderedElementsAre("+ endpoints 0x1 . 1 : 10.0.0.2 . 8080",
                                   "- service-ips 10.96.0.1 . tcp . 80",
                                   "+ service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1 \"ns/web:\""));
}

TEST(PlanTest, OneEndpointMoreOfTheSameClassCostsOnlyItself) {
  std::vector<std::string> endpoints;
  for (int i = 1; i <= 20; ++i) endpoints.push_back("10.0.0." + std::to_string(i));
  const ServiceRows before = Rows(1, endpoints);
  endpoints.push_back("10.0.0.21");
  const ServiceRows after = Rows(1, endpoints);
  EXPECT_THAT(Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction()),
              ElementsAre("+ endpoints 0x1 . 20 : 10.0.0.21 . 8080"));
}

TEST(PlanTest, TheLastEndpointTurnsAMappingIntoARejection) {
  const ServiceRows before = Rows(1, {"10.0.0.1"}), after = Rows(1, {});
  EXPECT_THAT(Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction()),
              UnorderedElementsAre("- endpoints 0x1 . 0", "- service-ips 10.96.0.1 . tcp . 80",
                                   "+ no-endpoint-services 10.96.0.1 . tcp . 80 \"ns/web:\""));
}

// The descriptor does not change, so the deleted row is what new connections notice (S-80).
TEST(PlanTest, ALocalSetEndsWithTheCommitIfItsDescriptorStays) {
  ServiceRows before = Rows(1, {"10.0.0.1", "10.0.0.2"});
  PortRows& port = before.ports[0];
  port.addresses = {{Ip("198.51.100.1"), 80, DispatchKind::kExternalLocal},
                    {Ip("198.51.100.2"), 80, DispatchKind::kExternalLocal}};
  port.local = {2, {{Ip("10.0.0.1"), 8080}}};
  ServiceRows after = before;
  after.ports[0].local = {};
  after.ports[0].addresses.pop_back();
  Plan plan = Make({{"ns/web", &before, &after}});
  const nft::Transaction removals = TakeRemovals(plan.transaction(), {}, plan.ended_local_sets());
  EXPECT_THAT(
      Operations(plan.transaction()),
      UnorderedElementsAre("- service-ips 198.51.100.2 . tcp . 80", "- local-sets 130.0.0.1"));
  EXPECT_THAT(Operations(removals), ElementsAre("- endpoints 0x2 . 0"));
}

// Packets that hold the old descriptor still find the local set.
TEST(PlanTest, ALocalSetStaysUntilTheRemovalIfItsDescriptorGoes) {
  ServiceRows before = Rows(1, {"10.0.0.1", "10.0.0.2"});
  PortRows& port = before.ports[0];
  port.addresses = {{Ip("198.51.100.1"), 80, DispatchKind::kExternalLocal}};
  port.local = {2, {{Ip("10.0.0.1"), 8080}}};
  ServiceRows after = before;
  after.ports[0].local = {};
  after.ports[0].cluster.slots.pop_back();
  Plan plan = Make({{"ns/web", &before, &after}});
  EXPECT_TRUE(plan.ended_local_sets().empty());
  EXPECT_THAT(Operations(TakeRemovals(plan.transaction())),
              UnorderedElementsAre("- local-sets 130.0.0.1", "- endpoints 0x2 . 0"));
}

TEST(PlanTest, AChangedCommentIsRewritten) {
  const ServiceRows before = Rows(1, {"10.0.0.1"});
  ServiceRows after = before;
  after.ports[0].name = "http";
  EXPECT_THAT(Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction()),
              ElementsAre("- service-ips 10.96.0.1 . tcp . 80",
                          "+ service-ips 10.96.0.1 . tcp . 80 : 1.0.0.1 \"ns/web:http\""));
}

TEST(PlanTest, AServiceThatGoesIsOnlyDeleted) {
  const ServiceRows web = Rows(1, {"10.0.0.1"}, {"10.0.0.1"});
  EXPECT_THAT(Operations(Make({{"ns/web", &web, &kNothing}}, SharedOf({&web})).transaction()),
              UnorderedElementsAre("- endpoints 0x1 . 0", "- service-ips 10.96.0.1 . tcp . 80",
                                   "- cluster-ips 10.96.0.1",
                                   "- hairpin-connections 10.0.0.1 . 10.0.0.1 . tcp . 8080"));
}

// If one Service releases a row and another Service adds the same row, the deletion must precede
// the addition. The kernel rejects an existing key with different data, ignores an equal element,
// and checks the set size at each addition.
TEST(PlanTest, AllDeletionsComeBeforeAllAdditions) {
  const ServiceRows a = Rows(1, {"10.0.0.1"}), b = Rows(2, {"10.0.0.2"});
  const Plan plan = Make({{"ns/a", &a, &b}, {"ns/b", &b, &a}}, SharedOf({&a, &b}));
  bool added = false;
  plan.transaction().ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    added |= verb == nft::Verb::kAdd;
    EXPECT_TRUE(verb == nft::Verb::kAdd || !added) << Text(element);
  });
  EXPECT_TRUE(added);
}

TEST(PlanTest, TheBoundIsKnownBeforeTheTransactionIsComplete) {
  const ServiceRows a = Rows(1, {"10.0.0.1"}), b = Rows(2, {"10.0.0.2"}, {"10.0.0.2"});
  const SharedCounts none;
  Plan plan(none);
  EXPECT_EQ(plan.element_bound(), 0u);
  plan.AddService("ns/a", nullptr, a);
  EXPECT_EQ(plan.element_bound(), 3u);
  plan.AddService("ns/b", nullptr, b);
  EXPECT_EQ(plan.element_bound(), 7u);
  plan.Finish();
  EXPECT_EQ(plan.transaction().element_count(), 7u);
}

TEST(PlanTest, SharedRowsAreThereOnceAsLongAsAnybodyNeedsThem) {
  const std::string row = "hairpin-connections 10.0.0.1 . 10.0.0.1 . tcp . 8080";
  ServiceRows a = Rows(1, {"10.0.0.1"}, {"10.0.0.1"}), b = Rows(2, {"10.0.0.1"}, {"10.0.0.1"});
  const auto count = [&](const Plan& plan, const std::string& operation) {
    const Lines lines = Operations(plan.transaction());
    return std::count(lines.begin(), lines.end(), operation + row);
  };
  EXPECT_EQ(count(Make({{"a", nullptr, &a}, {"b", nullptr, &b}}), "+ "), 1);
  EXPECT_EQ(count(Make({{"b", nullptr, &b}}, SharedOf({&a})), "+ "), 0);
  EXPECT_EQ(count(Make({{"a", &a, &kNothing}}, SharedOf({&a, &b})), "- "), 0);
  EXPECT_EQ(count(Make({{"a", &a, &kNothing}, {"b", &b, &kNothing}}, SharedOf({&a, &b})), "- "), 1);
  // A row moves from one Service to another Service, so the kernel needs no change.
  const Plan moved = Make({{"a", &a, &kNothing}, {"b", nullptr, &b}}, SharedOf({&a}));
  EXPECT_EQ(count(moved, "+ ") + count(moved, "- "), 0);
}

TEST(PlanTest, CountsAreWhatTheSetsGainAndLose) {
  const ServiceRows before = Rows(1, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.1"});
  const ServiceRows after = Rows(1, {"10.0.0.9"});
  const auto counts =
      Make({{"ns/web", &before, &after}}, SharedOf({&before})).counts()[Index(Family::kIpv4)];
  EXPECT_EQ(counts[kEndpoints], -1);
  EXPECT_EQ(counts[kServiceIps], 0);
  EXPECT_EQ(counts[kHairpinConnections], -1);
  EXPECT_EQ(counts[kClusterIps], 0);
  EXPECT_EQ(Make({{"ns/web", nullptr, &before}}).counts()[0][kEndpoints], 2);
}

// With session affinity, the slots of a Service contain choices instead of endpoints.
TEST(PlanTest, S126TurningAffinityOnMovesTheEndpoints) {
  const ServiceRows before = Rows(1, {"10.0.0.1"});
  ServiceRows after = before;
  after.ports[0].affinity = Affinity{.port_number = 7, .endpoints = {{{Ip("10.0.0.1"), 8080}, 3}}};
  const Lines on =
      Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction());
  EXPECT_THAT(on,
              UnorderedElementsAre("- endpoints 0x1 . 0", "- service-ips 10.96.0.1 . tcp . 80",
                                   "+ service-ips 10.96.0.1 . tcp . 80 : 193.0.0.1 \"ns/web:\"",
                                   "+ affinity-slots 0x1 . 0 : 0.7.0.3",
                                   "+ affinity-endpoints 0.7.0.3 : 10.0.0.1 . 8080 \"ns/web:\""));
  const Lines off =
      Operations(Make({{"ns/web", &after, &before}}, SharedOf({&after})).transaction());
  EXPECT_THAT(off,
              UnorderedElementsAre("+ endpoints 0x1 . 0 : 10.0.0.1 . 8080",
                                   "- service-ips 10.96.0.1 . tcp . 80",
                                   "+ service-ips 10.96.0.1 . tcp . 80 : 1.0.0.1 \"ns/web:\"",
                                   "- affinity-slots 0x1 . 0", "- affinity-endpoints 0.7.0.3"));
}

TEST(PlanTest, S116AChangedSourceRangeIsDeletedAndAdded) {
  ServiceRows before = Rows(1, {"10.0.0.1"});
  before.ports[0].addresses.push_back(
      {Ip("203.0.113.1"), 80, DispatchKind::kExternal, /*firewalled=*/true});
  before.sources = {{Ip("10.0.0.0"), Ip("10.0.0.255")}, {Ip("11.0.0.0"), Ip("11.0.0.255")}};
  ServiceRows after = before;
  after.sources[0].last = Ip("10.0.1.255");  // The change keeps the first key of the range.
  const std::string range = "firewall-sources 203.0.113.1 . tcp . 80 . 10.0.0.0/";
  const Plan plan = Make({{"ns/web", &before, &after}}, SharedOf({&before}));
  EXPECT_THAT(Operations(plan.transaction()),
              ElementsAre("- " + range + "24", "+ " + range + "23"));
  EXPECT_NE(plan.digest_change(), 0u);
}

// Otherwise, the kernel could miss the rows while it replaces them.
TEST(PlanTest, S116ANewNameOfAServiceDoesNotChangeItsFirewall) {
  ServiceRows before = Rows(1, {"10.0.0.1"});
  before.ports[0].addresses = {
      {Ip("203.0.113.1"), 80, DispatchKind::kExternal, /*firewalled=*/true}};
  before.sources = {{Ip("10.0.0.0"), Ip("10.0.0.255")}, {Ip("11.0.0.0"), Ip("11.0.0.255")}};
  ServiceRows after = before;
  after.ports[0].cluster.group = 2;
  after.sources[1].last = Ip("11.0.0.254");
  const Plan plan =
      Make({{"ns/old", &before, &kNothing}, {"ns/new", nullptr, &after}}, SharedOf({&before}));
  Lines firewall = Operations(plan.transaction());
  std::erase_if(firewall,
                [](const std::string& line) { return line.find("firewall") == std::string::npos; });
  const std::string range = "firewall-sources 203.0.113.1 . tcp . 80 . 11.0.0.0";
  EXPECT_THAT(firewall, ElementsAre("- " + range + "/24", "+ " + range + "-11.0.0.254"));
  EXPECT_EQ(plan.source_rows_added(), 1u);
  EXPECT_EQ(plan.source_rows_removed(), 1u);
}

std::vector<Row> Ranges(const std::vector<std::string>& cidrs) {
  std::vector<IpPrefix> prefixes;
  for (const std::string& cidr : cidrs) prefixes.push_back(Cidr(cidr));
  return RangeRows(kServiceCidrs, MergeRanges(prefixes));
}

// The kernel can miss an address while its range is deleted and added.
TEST(PlanTest, RangesThatStayAreNotWritten) {
  const auto change = [](const std::vector<std::string>& before,
                         const std::vector<std::string>& after) {
    const SharedCounts none;
    Plan plan(none);
    plan.AddRows(Ranges(before), Ranges(after));
    plan.Finish();
    return Operations(plan.transaction());
  };
  const std::vector<std::string> two = {"10.96.0.0/16", "10.98.0.0/16"};
  EXPECT_TRUE(change(two, two).empty());
  EXPECT_THAT(change({"10.96.0.0/16"}, two),
              ElementsAre("+ service-cidrs 10.98.0.0", "+ service-cidrs 10.99.0.0 end"));
  EXPECT_THAT(change(two, {"10.98.0.0/16"}),
              ElementsAre("- service-cidrs 10.96.0.0", "- service-cidrs 10.97.0.0 end"));
  // A range ends elsewhere.
  EXPECT_THAT(change({"10.96.0.0/16"}, {"10.96.0.0/12"}),
              ElementsAre("- service-cidrs 10.96.0.0", "- service-cidrs 10.97.0.0 end",
                          "+ service-cidrs 10.96.0.0", "+ service-cidrs 10.112.0.0 end"));
  // A range is divided, and another one stays.
  EXPECT_THAT(change({"10.64.0.0/16", "10.96.0.0/12"},
                     {"10.64.0.0/16", "10.96.0.0/16", "10.104.0.0/13"}),
              ElementsAre("- service-cidrs 10.96.0.0", "- service-cidrs 10.112.0.0 end",
                          "+ service-cidrs 10.96.0.0", "+ service-cidrs 10.97.0.0 end",
                          "+ service-cidrs 10.104.0.0", "+ service-cidrs 10.112.0.0 end"));
}

TEST(PlanTest, TheMarkerIsReplacedInBothFamilies) {
  const SharedCounts none;
  const Marker old{1, 2}, next{3, 4};
  Plan first(none), second(none);
  first.AddMarker(nullptr, next);
  EXPECT_EQ(first.transaction().element_count(), 2u);
  second.AddMarker(&old, next);
  EXPECT_EQ(second.transaction().element_count(), 4u);
  EXPECT_EQ(second.transaction().deletion_count(), 2u);
  Marker read;
  const Row row = next.ToRow(Family::kIpv6);
  ASSERT_TRUE(ParseMarker({row.data.bytes().begin(), row.data.bytes().end()}, read));
  EXPECT_EQ(read, next);
  EXPECT_FALSE(ParseMarker({1, 2, 3}, read));
}

TEST(PlanTest, TheDigestDoesNotDependOnTheOrder) {
  const ServiceRows a = Rows(1, {"10.0.0.1"}), b = Rows(2, {"10.0.0.2", "10.0.0.1"});
  EXPECT_EQ(Make({{"a", nullptr, &a}, {"b", nullptr, &b}}).digest_change(),
            Make({{"b", nullptr, &b}, {"a", nullptr, &a}}).digest_change());
  EXPECT_NE(Make({{"a", nullptr, &a}}).digest_change(), Make({{"a", nullptr, &b}}).digest_change());
}

// Incremental changes and a complete rebuild produce the same rows, the same digest and the same
// counts.
TEST(PlanTest, TheDigestOfAllStepsIsThatOfTheRowsFromScratch) {
  std::mt19937 random(1);
  std::vector<ServiceRows> services(5);
  SharedCounts shared;
  SetCounts counts = {};
  uint64_t digest = 0;
  for (int step = 0; step < 300; ++step) {
    const size_t i = random() % services.size();
    std::vector<std::string> endpoints;
    for (int e = 1; e <= 6; ++e) {
      if (random() % 2 == 0) endpoints.push_back("10.0.0." + std::to_string(e));
    }
    const ServiceRows after =
        random() % 5 == 0 ? kNothing : Rows(static_cast<uint8_t>(i + 1), endpoints, endpoints);
    Plan plan(shared);
    plan.AddService(std::to_string(i), &services[i], after);
    plan.Finish();
    digest += plan.digest_change();
    for (size_t set = 0; set < kRowSetCount; ++set) counts[0][set] += plan.counts()[0][set];
    const SharedCounts changes = plan.shared_changes();
    for (const auto& [key, change] : changes) {
      if ((shared[key] += change) == 0) shared.erase(key);
    }
    services[i] = after;

    std::vector<PlanStep> all;
    for (size_t s = 0; s < services.size(); ++s) {
      all.push_back({std::to_string(s), nullptr, &services[s]});
    }
    const Plan anew = Make(all);
    ASSERT_EQ(digest, anew.digest_change()) << "step " << step;
    ASSERT_EQ(counts, anew.counts()) << "step " << step;
    ASSERT_EQ(shared, anew.shared_changes()) << "step " << step;
  }
}

}  // namespace
}  // namespace svcmap::proxy
