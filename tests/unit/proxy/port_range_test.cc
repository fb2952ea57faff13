#include "proxy/state/port_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

TEST_F(PortRangeRowsTest, EdgesBlocksAndEndpointsWithoutPorts) {
  MakeAfter({Ranged(), Endpoints().Ready("10.0.0.1").Ready("10.0.0.2")});
  EXPECT_THAT(OwnLines(), ElementsAre("range-ports 10.96.0.1 . tcp . 1023 : 2.0.0.1",
                                      "range-ports 10.96.0.1 . tcp . 1280 : 2.0.0.1",
                                      "range-blocks 10.96.0.1 . tcp . 0x4 : 2.0.0.1"));
  ASSERT_THAT(desired_.rows.ports, SizeIs(1));
  EXPECT_THAT(desired_.rows.ports[0].cluster.slots,
              ElementsAre(EndpointAddress{Ip("10.0.0.1"), 0}, EndpointAddress{Ip("10.0.0.2"), 0}));
  EXPECT_THAT(Findings(), IsEmpty());
}

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

// All ranges of a protocol share the source ranges. Single ports have source ranges of their own.
TEST_F(PortRangeRowsTest, SourceRangesApplyToTheAddressAndProtocol) {
  MakeAfter({AService("shop/web")
                 .At("10.96.0.1")
                 .LoadBalancer("203.0.113.1")
                 .SourceRange("198.51.100.0/24")
                 .Port(1, "a")
                 .EndPort(2)
                 .Port(5, "b")
                 .EndPort(6)
                 .Port(80, "http")});
  const Lines lines = OwnLines();
  const auto with = [&](const std::string& name) {
    Lines found;
    std::ranges::copy_if(lines, std::back_inserter(found),
                         [&](const std::string& line) { return line.starts_with(name); });
    return found;
  };
  EXPECT_THAT(with("range-firewall"),
              ElementsAre("range-firewall-ips 203.0.113.1 . tcp",
                          "range-firewall-sources 203.0.113.1 . tcp . 198.51.100.0/24"));
  EXPECT_THAT(with("firewall"),
              ElementsAre("firewall-ips 203.0.113.1 . tcp . 80",
                          "firewall-sources 203.0.113.1 . tcp . 80 . 198.51.100.0/24"));
  EXPECT_EQ(SourceRowCount(desired_.rows, Family::kIpv4), 2u);
  EXPECT_THAT(Findings(), IsEmpty());
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

// A reconciler with port ranges on a fake kernel.
class PortRangeCommitTest : public ::testing::Test {
 protected:
  PortRangeCommitTest() {
    kernel_.SetFaultHook([this](const nft::Transaction& transaction) {
      for (std::string& line : Operations(transaction)) operations_.push_back(std::move(line));
      return nft::FakeKernel::Fault::kNone;
    });
  }
  // Returns the operations of all commits that the changes cause.
  Lines Apply(const std::vector<Change>& changes) {
    operations_.clear();
    for (const Change& change : changes) reconciler_.store().Apply(change, ++sequence_);
    const SyncResult result = reconciler_.Sync(SIZE_MAX);
    EXPECT_EQ(result.outcome, SyncResult::Outcome::kCommitted) << result.error;
    while (!reconciler_.leftovers().empty()) reconciler_.RemoveLeftovers();
    EXPECT_EQ(Contents(kernel_, tables_), Additions(DesiredRows(reconciler_)));
    return operations_;
  }
  static Change Ranged(uint16_t last) {
    return AService("shop/web").At("10.96.0.1").Port(1023).EndPort(last);
  }

  const RulesetOptions options_{.port_ranges = true};
  const nft::TableSpecs tables_ = MakeTables(options_);
  nft::FakeKernel kernel_{tables_};
  Reconciler reconciler_{kernel_, {.node_name = "n1", .ruleset = options_}};
  Lines operations_;
  uint64_t sequence_ = 0;
};

TEST_F(PortRangeCommitTest, ACommitContainsOnlyWhatChanged) {
  const ASlice one = ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.0.0.1");
  const ASlice two =
      ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.0.0.1").Ready("10.0.0.2");
  Apply({Ranged(20000), one});
  EXPECT_THAT(Apply({Ranged(20001)}),
              ElementsAre("+ range-ports 10.96.0.1 . tcp . 20001 : 1.0.0.1 \"shop/web:\""));
  EXPECT_THAT(Apply({Ranged(20000)}), ElementsAre("- range-ports 10.96.0.1 . tcp . 20001"));
  // The number of endpoints is part of the descriptor, which is the value of each element.
  const size_t elements = DividePorts(1023, 20000).size();
  EXPECT_THAT(Apply({two}), SizeIs(2 * elements + 1));
  EXPECT_THAT(
      Apply({ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.0.0.1").Ready("10.0.0.3")}),
      ElementsAre("- range-endpoints 0x1 . 1", "+ range-endpoints 0x1 . 1 : 10.0.0.3"));
  Apply({{.kind = Kind::kService, .key = "shop/web"}});
  Apply({{.kind = Kind::kEndpointSlice, .key = "shop/web-1"},
         AService("shop/b").At("10.96.0.2").Port(80)});
}

}  // namespace
}  // namespace svcmap::proxy
