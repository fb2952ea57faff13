#include "proxy/desired/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace svcmap::proxy {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Take(GroupAllocator& groups, int count) {
  std::vector<uint32_t> taken;
  for (int i = 0; i < count; ++i) taken.push_back(groups.Allocate());
  return taken;
}

TEST(GroupAllocatorTest, NumbersStartAtOneAndAscend) {
  GroupAllocator groups;
  EXPECT_THAT(Take(groups, 3), ElementsAre(1, 2, 3));
}

TEST(GroupAllocatorTest, AReleasedNumberIsNotUsedWhileThereAreFreshOnes) {
  GroupAllocator groups(4);
  Take(groups, 2);
  groups.Release({1});
  EXPECT_THAT(Take(groups, 2), ElementsAre(3, 4));
}

TEST(GroupAllocatorTest, TheNumberReleasedLongestAgoIsUsedFirst) {
  GroupAllocator groups(3);
  Take(groups, 3);
  groups.Release({2});
  groups.Release({3, 1});
  EXPECT_THAT(Take(groups, 3), ElementsAre(2, 3, 1));
}

TEST(GroupAllocatorTest, ZeroSaysThatAllAreInUse) {
  GroupAllocator groups(2);
  EXPECT_THAT(Take(groups, 4), ElementsAre(1, 2, 0, 0));
  groups.Release({2});
  EXPECT_EQ(groups.Allocate(), 2u);
}

TEST(GroupAllocatorTest, TheLastGroupFitsTheDescriptorOfIpv4) {
  EXPECT_EQ(kMaxGroup, 0xffffffu);  // Three bytes.
}

}  // namespace
}  // namespace svcmap::proxy
