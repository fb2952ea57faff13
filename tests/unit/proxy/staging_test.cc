#include "proxy/desired/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<EndpointAddress> Endpoints(int count, int first = 1) {
  std::vector<EndpointAddress> endpoints;
  for (int i = first; i < first + count; ++i) {
    endpoints.push_back({Ip("10.0.0." + std::to_string(i)), 8080});
  }
  return endpoints;
}

PortRows Port(uint16_t number, uint32_t group, int endpoints, int hairpins = 0) {
  return {.name = "p" + std::to_string(number),
          .port = number,
          .addresses = {{Ip("10.96.0.1"), number, DispatchKind::kInternal}},
          .any = true,
          .cluster = {group, Endpoints(endpoints)},
          .hairpins = Endpoints(hairpins)};
}

ServiceRows Rows(std::vector<PortRows> ports) {
  return {.cluster_ips = {Ip("10.96.0.1")}, .ports = std::move(ports)};
}

// For each staged port, the number of slots in both endpoint sets and of hairpin pairs.
std::vector<std::vector<size_t>> Staged(const ServiceRows& rows) {
  std::vector<std::vector<size_t>> staged;
  for (const PortRows& port : rows.ports) {
    if (!IsStaged(port)) continue;
    staged.push_back({port.cluster.slots.size(), port.local.slots.size(), port.hairpins.size()});
  }
  return staged;
}

TEST(StagingTest, ASmallChangeIsOnePortion) {
  const ServiceRows after = Rows({Port(80, 1, 3, 2)});
  EXPECT_EQ(NextPortion(nullptr, after, 5), std::nullopt);
  EXPECT_NE(NextPortion(nullptr, after, 4), std::nullopt);
}

TEST(StagingTest, GroupsThatStayAreNotStaged) {
  const ServiceRows before = Rows({Port(80, 1, 20)});
  EXPECT_EQ(NextPortion(&before, Rows({Port(80, 1, 10)}), 5), std::nullopt);
  EXPECT_EQ(NextPortion(&before, Rows({Port(80, 1, 20), Port(81, 2, 5)}), 5), std::nullopt);
}

TEST(StagingTest, ANewServiceHasNoDestinationsUntilTheLastPortion) {
  const ServiceRows after = Rows({Port(80, 1, 8, 4)});
  const std::optional<ServiceRows> first = NextPortion(nullptr, after, 5);
  ASSERT_TRUE(first);
  EXPECT_THAT(first->cluster_ips, SizeIs(0));
  EXPECT_THAT(first->ports, SizeIs(1));
  EXPECT_THAT(Staged(*first), ElementsAre(ElementsAre(5, 0, 0)));
  const std::optional<ServiceRows> second = NextPortion(&*first, after, 5);
  ASSERT_TRUE(second);
  EXPECT_THAT(Staged(*second), ElementsAre(ElementsAre(8, 0, 2)));
  EXPECT_EQ(NextPortion(&*second, after, 5), std::nullopt);
}

TEST(StagingTest, ThePreviousPortsStayUntilTheLastPortion) {
  const ServiceRows before = Rows({Port(80, 1, 3), Port(81, 2, 3)});
  const ServiceRows after = Rows({Port(80, 3, 6), Port(81, 2, 4), Port(82, 4, 6)});
  const std::optional<ServiceRows> first = NextPortion(&before, after, 8);
  ASSERT_TRUE(first);
  ASSERT_THAT(first->ports, SizeIs(4));
  EXPECT_EQ(first->ports[0], before.ports[0]);
  EXPECT_EQ(first->ports[1], before.ports[1]);
  EXPECT_THAT(Staged(*first), ElementsAre(ElementsAre(6, 0, 0), ElementsAre(2, 0, 0)));
  EXPECT_EQ(NextPortion(&*first, after, 8), std::nullopt);
}

TEST(StagingTest, BothEndpointSetsOfAPortAreStaged) {
  PortRows port = Port(80, 1, 4);
  port.local = {2, Endpoints(4)};
  const ServiceRows after = Rows({port});
  const std::optional<ServiceRows> first = NextPortion(nullptr, after, 3);
  const std::optional<ServiceRows> second = NextPortion(&*first, after, 3);
  EXPECT_THAT(Staged(*first), ElementsAre(ElementsAre(3, 0, 0)));
  EXPECT_THAT(Staged(*second), ElementsAre(ElementsAre(4, 2, 0)));
}

TEST(StagingTest, StagedGroupsThatAreNotNeededAreDropped) {
  const ServiceRows after = Rows({Port(80, 1, 8)});
  const std::optional<ServiceRows> first = NextPortion(nullptr, after, 5);
  const std::optional<ServiceRows> other = NextPortion(&*first, Rows({Port(80, 2, 8)}), 5);
  ASSERT_TRUE(other);
  ASSERT_THAT(other->ports, SizeIs(1));
  EXPECT_EQ(other->ports[0].cluster, (EndpointSet{2, Endpoints(5)}));
}

TEST(StagingTest, AStagedSetIsContinuedIfItsSlotsStay) {
  const ServiceRows after = Rows({Port(80, 1, 8)});
  const std::optional<ServiceRows> first = NextPortion(nullptr, after, 5);
  const EndpointSet* found = FindStaged(*first, after.ports[0], /*local=*/false, Endpoints(9));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->group, 1u);
  EXPECT_EQ(FindStaged(*first, after.ports[0], false, Endpoints(4)), nullptr);
  EXPECT_EQ(FindStaged(*first, after.ports[0], false, Endpoints(9, 2)), nullptr);
  EXPECT_EQ(FindStaged(*first, after.ports[0], true, Endpoints(9)), nullptr);
  EXPECT_EQ(FindStaged(*first, Port(81, 1, 8), false, Endpoints(9)), nullptr) << "another name";
  EXPECT_EQ(FindStaged(after, after.ports[0], false, Endpoints(9)), nullptr) << "not staged";
}

TEST(StagingTest, PortsWithAffinityAreNotStaged) {
  PortRows port = Port(80, 1, 8);
  port.affinity.emplace();
  EXPECT_EQ(NextPortion(nullptr, Rows({port}), 5), std::nullopt);
}

}  // namespace
}  // namespace svcmap::proxy::test
