#include "proxy/desired/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "proxy/desired/ranges.h"
#include "proxy/diff/plan.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/state/port_range.h"
#include "proxy/state/store.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/proxy/all_rows.h"
#include "tests/unit/proxy/desired_world.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ServiceCommentTest, IsTheNameOfTheServicePort) {
  EXPECT_EQ(ServiceComment("shop/web", "http"), "shop/web:http");
  EXPECT_EQ(ServiceComment("shop/web", ""), "shop/web:");
}

TEST(ServiceCommentTest, FitsAndIsUniqueForEveryLength) {
  std::set<std::string> comments;
  for (size_t service = 1; service <= 63; ++service) {
    for (size_t port = 0; port <= 15; ++port) {
      const std::string comment = ServiceComment(
          std::string(63, 'n') + "/" + std::string(service, 's'), std::string(port, 'p'));
      EXPECT_LE(comment.size(), nft::Transaction::kMaxComment);
      EXPECT_TRUE(comments.insert(comment).second) << comment;
    }
  }
}

TEST(ServiceCommentTest, IsCutOnlyWhereItMustBe) {
  const std::string service = std::string(63, 'n') + "/" + std::string(58, 's');
  EXPECT_EQ(ServiceComment(service, "http"), service + ":http");  // The comment has 127 bytes.
  EXPECT_NE(ServiceComment(service, "https"), service + ":https");
}

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
  Plan first;
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

// Returns the bounds of the merged ranges, for example "10.96.0.0" and "10.97.0.0 end".
Lines Bounds(const std::vector<std::string>& cidrs) {
  std::vector<IpPrefix> prefixes;
  for (const std::string& cidr : cidrs) prefixes.push_back(Cidr(cidr));
  Lines lines = Texts(RangeRows(kServiceCidrs, MergeRanges(prefixes)));
  for (std::string& line : lines) line.erase(0, std::string("service-cidrs ").size());
  return lines;
}

TEST(RangesTest, AreDisjoint) {
  const struct {
    const char* name;
    std::vector<std::string> cidrs;
    Lines bounds;
  } cases[] = {
      {"none", {}, {}},
      {"one", {"10.96.0.0/16"}, {"10.96.0.0", "10.97.0.0 end"}},
      {"one address", {"10.96.0.1/32"}, {"10.96.0.1", "10.96.0.2 end"}},
      {"apart",
       {"10.98.0.0/16", "10.96.0.0/16"},
       {"10.96.0.0", "10.97.0.0 end", "10.98.0.0", "10.99.0.0 end"}},
      {"twice the same", {"10.96.0.0/16", "10.96.0.0/16"}, {"10.96.0.0", "10.97.0.0 end"}},
      {"one inside the other", {"10.96.3.0/24", "10.96.0.0/16"}, {"10.96.0.0", "10.97.0.0 end"}},
      {"one inside the other from its start",
       {"10.96.0.0/24", "10.96.0.0/16"},
       {"10.96.0.0", "10.97.0.0 end"}},
      {"adjacent", {"10.97.0.0/16", "10.96.0.0/16"}, {"10.96.0.0", "10.98.0.0 end"}},
      {"inside, then adjacent to the outer one",
       {"10.96.0.0/16", "10.96.0.0/24", "10.97.0.0/16"},
       {"10.96.0.0", "10.98.0.0 end"}},
      {"everything", {"0.0.0.0/0", "10.0.0.0/8"}, {"0.0.0.0"}},
      {"up to the last address", {"255.255.0.0/16"}, {"255.255.0.0"}},
      {"the last address",
       {"255.255.255.255/32", "10.0.0.0/8"},
       {"10.0.0.0", "11.0.0.0 end", "255.255.255.255"}},
      {"adjacent up to the last address",
       {"255.255.255.254/32", "255.255.255.255/32"},
       {"255.255.255.254"}},
      {"the other half", {"0.0.0.0/1", "128.0.0.0/1"}, {"0.0.0.0"}},
      {"IPv6", {"fd00:96::/112"}, {"fd00:96::", "fd00:96::1:0 end"}},
      {"all of IPv6", {"::/0"}, {"::"}},
      {"both families",
       {"fd00::/16", "10.0.0.0/8"},
       {"10.0.0.0", "11.0.0.0 end", "fd00::", "fd01:: end"}},
      {"families are not adjacent", {"255.0.0.0/8", "::/16"}, {"255.0.0.0", "::", "1:: end"}},
  };
  for (const auto& c : cases) {
    std::vector<std::string> cidrs = c.cidrs;
    EXPECT_EQ(Bounds(cidrs), c.bounds) << c.name;
    std::reverse(cidrs.begin(), cidrs.end());
    EXPECT_EQ(Bounds(cidrs), c.bounds) << c.name << ", the other way round";
  }
}

TEST(RangesTest, OutsideIsAllBeforeAndBehind) {
  const struct {
    const char* prefix;
    Lines ranges;
  } cases[] = {
      {"10.244.0.0/16", {"0.0.0.0-10.243.255.255", "10.245.0.0-255.255.255.255"}},
      {"10.0.0.1/32", {"0.0.0.0-10.0.0.0", "10.0.0.2-255.255.255.255"}},
      {"0.0.0.0/1", {"128.0.0.0-255.255.255.255"}},
      {"128.0.0.0/1", {"0.0.0.0-127.255.255.255"}},
      {"0.0.0.0/0", {}},
      {"::/0", {}},
      {"fd00::/16",
       {"::-fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "fd01::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}},
  };
  for (const auto& c : cases) {
    Lines ranges;
    for (const AddressRange& range : Outside(Cidr(c.prefix))) {
      ranges.push_back(range.first.ToString() + "-" + range.last.ToString());
    }
    EXPECT_EQ(ranges, c.ranges) << c.prefix;
  }
}

TEST(DividePortsTest, CompleteBlocksAndTheEdges) {
  EXPECT_THAT(DividePorts(80, 80).ports, ElementsAre(80));
  EXPECT_THAT(DividePorts(80, 82).ports, ElementsAre(80, 81, 82));
  EXPECT_THAT(DividePorts(1023, 1280).ports, ElementsAre(1023, 1280));
  EXPECT_THAT(DividePorts(1023, 1280).blocks, ElementsAre(4));
  EXPECT_THAT(DividePorts(1024, 1279).ports, IsEmpty());
  EXPECT_THAT(DividePorts(1, 65535).ports, IsEmpty());
  EXPECT_THAT(DividePorts(1, 65535).blocks, SizeIs(256));
  EXPECT_THAT(DividePorts(1, 255).blocks, ElementsAre(0)) << "port 0 does not exist";
  EXPECT_THAT(DividePorts(2, 255).ports, SizeIs(254));
  EXPECT_THAT(DividePorts(65280, 65535).blocks, ElementsAre(255));
  EXPECT_THAT(DividePorts(65535, 65535).ports, ElementsAre(65535));
}

TEST(DividePortsTest, TheNumberOfElementsIsLimited) {
  constexpr size_t kMaxRangeElements = 2 * (kPortsPerBlock - 1) + 253;  // Two edges and the blocks.
  size_t most = 0;
  for (uint32_t first = 1; first <= 65535; first += 127) {
    for (uint32_t last = first; last <= 65535; last += 251) {
      most = std::max(
          most, DividePorts(static_cast<uint16_t>(first), static_cast<uint16_t>(last)).size());
    }
  }
  EXPECT_LE(most, kMaxRangeElements);
  EXPECT_EQ(DividePorts(257, 65534).size(), kMaxRangeElements);
  EXPECT_EQ(DividePorts(2999, 12998).size(), 310u) << "the most elements of 10,000 ports";
}

class PortRangeRowsTest : public DesiredWorld {
 protected:
  PortRangeRowsTest() { node_.port_ranges = true; }
  static AService Ranged(uint16_t first = 1023, uint16_t last = 1280) {
    return AService("shop/web").At("10.96.0.1").Port(first).EndPort(last);
  }
  static ASlice Endpoints() { return ASlice("shop/web-1", "shop/web").Port(8080); }
};

TEST_F(PortRangeRowsTest, ARangeThatBecomesAPortGetsAnotherGroup) {
  MakeAfter({Ranged(), Endpoints().Ready("10.0.0.1")});
  MakeAfter({AService("shop/web").At("10.96.0.1").Port(1023)});
  EXPECT_THAT(OwnLines(), ElementsAre("service-ips 10.96.0.1 . tcp . 1023 : 1.0.0.2"));
  EXPECT_THAT(Texts(desired_.new_numbers), ElementsAre("group 2 of IPv4"));
  EXPECT_THAT(Texts(desired_.old_numbers), ElementsAre("group 1 of IPv4"));
}

TEST_F(PortRangeRowsTest, WithoutTheFlagTheOtherPortsAreProgrammed) {
  node_.port_ranges = false;
  MakeAfter({AService("shop/web").At("10.96.0.1").Port(1000, "r").EndPort(2000).Port(80, "http"),
             ASlice("shop/web-1", "shop/web").Port(8080, "http").Ready("10.0.0.1")});
  EXPECT_THAT(OwnLines(), ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 1.0.0.1"));
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("svcmapd runs without --port-ranges")));
}

// The records of the port must not lead to endpoints of the range, whose addresses have no port.
TEST_F(PortRangeRowsTest, APortThatBecomesARangeGetsOtherNumbers) {
  const ASlice endpoints = Endpoints().Ready("10.0.0.1");
  MakeAfter({AService("shop/web").At("10.96.0.1").Port(1000).Affinity(10800), endpoints});
  EXPECT_EQ(desired_.rows.ports.at(0).affinity->endpoints.at(0).number, 1);
  MakeAfter({Ranged(1000, 1000).Affinity(10800)});
  EXPECT_THAT(OwnLines("range-affinity"),
              ElementsAre("range-affinity-endpoints 0.2.0.1 : 10.0.0.1"));
  EXPECT_THAT(Texts(desired_.new_numbers),
              ElementsAre("sticky group 2 of IPv4", "sticky port 2 of IPv4"));
}

TEST_F(PortRangeRowsTest, TheOlderServiceGetsTheRangesOfAnAddress) {
  MakeAfter({Ranged().External("198.51.100.1").Created(2), Endpoints().Ready("10.0.0.1"),
             AService("shop/old")
                 .At("10.96.0.2")
                 .External("198.51.100.1")
                 .Port(5000)
                 .EndPort(6000)
                 .Created(1)});
  EXPECT_THAT(OwnLines(), SizeIs(3));
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("198.51.100.1/TCP: already used by Service shop/old")));
}

TEST_F(PortRangeRowsTest, TheElementsOfARangeCount) {
  const uint64_t single = ElementCount(*AService("shop/a").At("10.96.0.1").Port(80).Build());
  EXPECT_EQ(ElementCount(*Ranged(1000, 1002).Build()), 3 * single);
  EXPECT_EQ(ElementCount(*Ranged(1, 65535).Build()), 256 * single);
}

}  // namespace
}  // namespace svcmap::proxy
