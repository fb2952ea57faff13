#include "proxy/desired/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace svcmap::proxy {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Take(NumberAllocator& numbers, int count) {
  std::vector<uint32_t> taken;
  for (int i = 0; i < count; ++i) taken.push_back(numbers.Allocate());
  return taken;
}

TEST(NumberAllocatorTest, AReleasedNumberIsNotUsedWhileThereAreFreshOnes) {
  NumberAllocator numbers(4);
  Take(numbers, 2);
  numbers.Release(1);
  EXPECT_THAT(Take(numbers, 2), ElementsAre(3, 4));
}

TEST(NumberAllocatorTest, TheNumberReleasedLongestAgoIsUsedFirst) {
  NumberAllocator numbers(3);
  Take(numbers, 3);
  numbers.Release(2);
  numbers.Release(3);
  numbers.Release(1);
  EXPECT_THAT(Take(numbers, 3), ElementsAre(2, 3, 1));
}

TEST(NumberAllocatorTest, ZeroSaysThatAllAreInUse) {
  NumberAllocator numbers(2);
  EXPECT_THAT(Take(numbers, 4), ElementsAre(1, 2, 0, 0));
  numbers.Release(2);
  EXPECT_EQ(numbers.Allocate(), 2u);
}

// After a plan fails, the next plan allocates the same numbers.
TEST(NumberAllocatorTest, WhatIsGivenBackIsHandedOutNextInTheSameOrder) {
  NumberAllocator numbers(4);
  EXPECT_THAT(Take(numbers, 4), ElementsAre(1, 2, 3, 4));
  numbers.Release(4);
  numbers.Release(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Take(numbers, 2), ElementsAre(4, 3));
    for (const uint32_t number : {3, 4}) numbers.GiveBack(number);
  }
}

TEST(NumberAllocatorTest, FreshOnesGivenBackAreFresh) {
  NumberAllocator numbers(9);
  EXPECT_THAT(Take(numbers, 2), ElementsAre(1, 2));
  numbers.Release(1);
  EXPECT_THAT(Take(numbers, 2), ElementsAre(3, 4));
  numbers.GiveBack(4);
  numbers.GiveBack(3);
  EXPECT_THAT(Take(numbers, 3), ElementsAre(3, 4, 5)) << "not 1";
}

}  // namespace
}  // namespace svcmap::proxy
