#include "tests/bench/commands/merge.h"

#include <gtest/gtest.h>

namespace svcmap::bench {
namespace {

TEST(MergeTest, ChangesOfOneServiceBecomeOne) {
  Cluster cluster({.services = 3, .endpoints = 2});
  const ServicePort before = cluster.ports()[1];
  std::vector<ClusterChange> changes;
  changes.push_back(cluster.ReplaceEndpoint(1));
  changes.push_back(cluster.AddEndpoint(0));
  changes.push_back(cluster.ReplaceEndpoint(1));

  const std::vector<ClusterChange> merged = MergeChanges(std::move(changes));
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].before->endpoints[0].address, before.endpoints[0].address);
  EXPECT_EQ(merged[0].after->endpoints[0].address, cluster.ports()[1].endpoints[0].address);
  ASSERT_EQ(merged[0].messages.size(), 1u);
  EXPECT_EQ(merged[0].messages[0].endpoint_slice().endpoints(0).addresses(0),
            cluster.ports()[1].endpoints[0].address.ip.ToString());
  EXPECT_EQ(merged[1].after->endpoints.size(), 3u);
}

TEST(MergeTest, WhatCameAndWentIsNoChange) {
  Cluster cluster({.services = 1, .endpoints = 1});
  std::vector<ClusterChange> changes;
  changes.push_back(cluster.AddService(2));
  changes.push_back(cluster.RemoveLastService());
  EXPECT_TRUE(MergeChanges(std::move(changes)).empty());
}

TEST(MergeTest, AServiceThatComesAndChangesComesAsItIs) {
  Cluster cluster({.services = 1, .endpoints = 1});
  std::vector<ClusterChange> changes;
  changes.push_back(cluster.AddService(2));
  changes.push_back(cluster.RemoveEndpoint(1));
  const std::vector<ClusterChange> merged = MergeChanges(std::move(changes));
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_FALSE(merged[0].before);
  EXPECT_EQ(merged[0].after->endpoints.size(), 1u);
  // Expect one message for the Service and one message for its EndpointSlice.
  EXPECT_EQ(merged[0].messages.size(), 2u);
}

}  // namespace
}  // namespace svcmap::bench
