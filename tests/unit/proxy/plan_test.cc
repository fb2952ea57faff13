#include "proxy/diff/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
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

// Returns the rows of a Service with a restricted load balancer IP.
ServiceRows RestrictedRows(uint32_t group, const std::vector<AddressRange>& sources) {
  PortRows port{
      .port = 80,
      .addresses = {{Ip("203.0.113.1"), 80, DispatchKind::kExternal, /*firewalled=*/true}},
      .any = true,
      .cluster = {group, {{Ip("10.0.0.1"), 8080}}}};
  return {.cluster_ips = {Ip("10.96.0.1")}, .sources = sources, .ports = {port}};
}

// Otherwise, the kernel could miss the rows while it replaces them.
TEST(PlanTest, S116ANewNameOfAServiceDoesNotChangeItsFirewall) {
  const AddressRange stays = {Ip("10.0.0.0"), Ip("10.0.0.255")};
  const ServiceRows nothing;
  const ServiceRows before = RestrictedRows(1, {stays, {Ip("11.0.0.0"), Ip("11.0.0.255")}});
  const ServiceRows after = RestrictedRows(2, {stays, {Ip("11.0.0.0"), Ip("11.0.0.254")}});
  const SharedCounts none;
  Plan first(none);
  first.AddService("ns/old", nullptr, before);
  first.Finish();
  Plan plan(first.shared_changes());
  plan.AddService("ns/old", &before, nothing);
  plan.AddService("ns/new", nullptr, after);
  plan.Finish();
  Lines firewall = Operations(plan.transaction());
  std::erase_if(firewall,
                [](const std::string& line) { return line.find("firewall") == std::string::npos; });
  const std::string range = "firewall-sources 203.0.113.1 . tcp . 80 . 11.0.0.0";
  EXPECT_THAT(firewall, ElementsAre("- " + range + "/24", "+ " + range + "-11.0.0.254"));
  EXPECT_EQ(plan.source_rows_added(), 1u);
  EXPECT_EQ(plan.source_rows_removed(), 1u);
}

// Packets that hold the old descriptor still find the local set.
TEST(PlanTest, ALocalSetStaysUntilTheRemovalIfItsDescriptorGoes) {
  PortRows port{.port = 80,
                .addresses = {{Ip("198.51.100.1"), 80, DispatchKind::kExternalLocal}},
                .any = true,
                .cluster = {1, {{Ip("10.0.0.1"), 8080}, {Ip("10.0.0.2"), 8080}}},
                .local = {2, {{Ip("10.0.0.1"), 8080}}}};
  const ServiceRows before{.ports = {port}};
  port.local = {};
  port.cluster.slots.pop_back();
  const SharedCounts none;
  Plan plan(none);
  plan.AddService("ns/web", &before, {.ports = {port}});
  plan.Finish();
  EXPECT_TRUE(plan.ended_local_sets().empty());
  EXPECT_THAT(Operations(SplitIntoPhases(std::move(plan.transaction()), {}).removals),
              UnorderedElementsAre("- local-sets 130.0.0.1", "- endpoints 0x2 . 0"));
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
