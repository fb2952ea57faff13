#include "proxy/state/port_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "proxy/reconcile/reconciler.h"
#include "proxy/state/store.h"
#include "tests/support/fake_kernel.h"
#include "tests/unit/proxy/all_rows.h"
#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
