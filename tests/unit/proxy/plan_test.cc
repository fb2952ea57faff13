#include "proxy/diff/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/desired/ranges.h"
#include "proxy/diff/phases.h"
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

TEST(PlanTest, OneEndpointMoreOfTheSameClassCostsOnlyItself) {
  std::vector<std::string> endpoints;
  for (int i = 1; i <= 20; ++i) endpoints.push_back("10.0.0." + std::to_string(i));
  const ServiceRows before = Rows(1, endpoints);
  endpoints.push_back("10.0.0.21");
  const ServiceRows after = Rows(1, endpoints);
  EXPECT_THAT(Operations(Make({{"ns/web", &before, &after}}, SharedOf({&before})).transaction()),
              ElementsAre("+ endpoints 0x1 . 20 : 10.0.0.21 . 8080"));
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
  const Phases phases =
      SplitIntoPhases(std::move(plan.transaction()), {.ended_local_sets = plan.ended_local_sets()});
  EXPECT_THAT(
      Operations(phases.change),
      UnorderedElementsAre("- service-ips 198.51.100.2 . tcp . 80", "- local-sets 130.0.0.1"));
  EXPECT_THAT(Operations(phases.removals), ElementsAre("- endpoints 0x2 . 0"));
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
  EXPECT_THAT(Operations(SplitIntoPhases(std::move(plan.transaction()), {}).removals),
              UnorderedElementsAre("- local-sets 130.0.0.1", "- endpoints 0x2 . 0"));
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
  EXPECT_THAT(
      change({"10.64.0.0/16", "10.96.0.0/12"}, {"10.64.0.0/16", "10.96.0.0/16", "10.104.0.0/13"}),
      ElementsAre("- service-cidrs 10.96.0.0", "- service-cidrs 10.112.0.0 end",
                  "+ service-cidrs 10.96.0.0", "+ service-cidrs 10.97.0.0 end",
                  "+ service-cidrs 10.104.0.0", "+ service-cidrs 10.112.0.0 end"));
}

}  // namespace
}  // namespace svcmap::proxy
