#include "tests/bench/cluster/cluster.h"

#include <gtest/gtest.h>

namespace svcmap::bench {
namespace {

TEST(ClusterTest, AStepOfARollingUpdateIsOneMessage) {
  Cluster cluster({.services = 1, .endpoints = 1000});
  EXPECT_EQ(cluster.ReplaceEndpoints(0, 10, 10).messages.size(), 1u);
}

}  // namespace
}  // namespace svcmap::bench
