#include "proxy/diff/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/desired/ranges.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;

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

}  // namespace
}  // namespace svcmap::proxy
