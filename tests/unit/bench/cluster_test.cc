#include "tests/bench/cluster/cluster.h"

#include <gtest/gtest.h>

namespace svcmap::bench {
namespace {

TEST(ClusterTest, ShapesAreReadAndNamed) {
  absl::StatusOr<ClusterShape> shape = ParseShape("5000x50");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->services, 5000);
  EXPECT_EQ(shape->endpoints, 50);
  EXPECT_EQ(ShapeText(*shape), "5000x50");
  shape->mix = Mix::kMixed;
  shape->family = Family::kIpv6;
  EXPECT_EQ(ShapeText(*shape), "5000x50-mixed-ipv6");
  for (const char* text : {"", "10", "10x", "x10", "0x10", "10x0", "10x10x10", "10x10 "}) {
    EXPECT_FALSE(ParseShape(text).ok()) << text;
  }
}

TEST(ClusterTest, AStepOfARollingUpdateIsOneMessage) {
  Cluster cluster({.services = 1, .endpoints = 1});
  cluster.AddService(1000);
  const ClusterChange step = cluster.ReplaceEndpoints(1, 10, 10);
  ASSERT_EQ(step.messages.size(), 1u);
  int changed = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const bool stays = step.before->endpoints[i].address == step.after->endpoints[i].address;
    EXPECT_EQ(stays, i < 10 || i >= 20) << i;
    changed += !stays;
  }
  EXPECT_EQ(changed, 10);
}

TEST(ClusterTest, AChangeInTheSecondSliceTellsThatSlice) {
  Cluster cluster({.services = 1, .endpoints = 1001});
  EXPECT_EQ(cluster.RemoveEndpoint(0).messages[0].endpoint_slice().metadata().name(),
            "service-0-1");
  EXPECT_EQ(cluster.ReplaceEndpoint(0).messages[0].endpoint_slice().metadata().name(),
            "service-0-0");
}

}  // namespace
}  // namespace svcmap::bench
