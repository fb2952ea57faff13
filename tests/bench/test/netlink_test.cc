// Tests that the compared implementation "netlink" programs the elements that it reports.
#include "tests/bench/opponents/netlink.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::bench {
namespace {

using testing::NetNs;

// Returns the elements of the table in nft's list format.
std::string FloorElements(const NetNs& netns, const char* family) {
  const absl::StatusOr<std::string> listing =
      testing::RunOk({.argv = {"nft", "list", "table", family, "floor"}, .netns = &netns});
  EXPECT_OK(listing);
  std::string elements;
  for (size_t at = 0; listing.ok() && (at = listing->find("elements = {", at)) != std::string::npos;
       ++at) {
    elements += listing->substr(at, listing->find('}', at) - at) + "\n";
  }
  return elements;
}

TEST(NetlinkOpponentTest, ChangesEndWhereAFullSyncEnds) {
  for (const Family family : kFamilies) {
    ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
    ASSERT_OK_AND_ASSIGN(const auto floor, MakeNetlink(netns, {}));
    Cluster cluster({.services = 10, .endpoints = 3, .family = family, .mix = Mix::kMixed});
    ASSERT_OK(floor->Load(cluster));
    std::vector<ClusterChange> changes;
    changes.push_back(cluster.ReplaceEndpoint(1));
    changes.push_back(cluster.AddEndpoint(2));
    changes.push_back(cluster.RemoveEndpoint(3));
    changes.push_back(cluster.AddService(60));
    for (const ClusterChange& change : changes) ASSERT_OK(floor->Change(cluster, {change}));
    const ClusterChange step = cluster.ReplaceEndpoints(10, 5, 10);
    ASSERT_OK(floor->Change(cluster, {step}));

    const char* name = family == Family::kIpv4 ? "ip" : "ip6";
    const std::string changed = FloorElements(netns, name);
    ASSERT_OK(floor->Resync(cluster));
    EXPECT_EQ(changed, FloorElements(netns, name));

    const ClusterChange gone = cluster.RemoveLastService();
    ASSERT_OK(floor->Change(cluster, {gone}));
    const std::string fewer = FloorElements(netns, name);
    ASSERT_OK(floor->Resync(cluster));
    EXPECT_EQ(fewer, FloorElements(netns, name));
    EXPECT_LT(fewer.size(), changed.size());
  }
}

TEST(NetlinkOpponentTest, EveryEndpointIsAnElement) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(const auto floor, MakeNetlink(netns, {}));
  const Cluster cluster({.services = 7, .endpoints = 3});
  ASSERT_OK_AND_ASSIGN(const Cost cost, floor->Load(cluster));
  EXPECT_GT(cost.seconds, 0);
  EXPECT_EQ(cost.kernel_seconds, cost.seconds);
  const std::string elements = FloorElements(netns, "ip");
  EXPECT_EQ(std::count(elements.begin(), elements.end(), ':'), 7 + 7 * 3) << elements;
}

}  // namespace
}  // namespace svcmap::bench
