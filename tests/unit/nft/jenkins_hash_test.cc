#include "nft/expr/jenkins_hash.h"

#include <gtest/gtest.h>

#include <string_view>

namespace svcmap::nft {
namespace {

uint32_t Hash(std::string_view text, uint32_t seed) {
  return JenkinsHash({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, seed);
}

// The values are from the comments of lookup3.c by Bob Jenkins, driver5().
TEST(JenkinsHashTest, HasTheValuesOfItsAuthor) {
  EXPECT_EQ(Hash("", 0), 0xdeadbeefu);
  EXPECT_EQ(Hash("Four score and seven years ago", 0), 0x17770551u);
  EXPECT_EQ(Hash("Four score and seven years ago", 1), 0xcd628161u);
}

// tests/netns/endpoint_pick_test.cc compares the numbers with the kernel's.
TEST(JenkinsHashTest, TheNumberIsTheScaledHash) {
  const uint8_t bytes[] = {10, 0, 0, 1};
  const uint64_t hash = JenkinsHash(bytes, 5);
  EXPECT_EQ(HashedNumberOf(bytes, 251, 5), hash * 251 / (uint64_t{1} << 32));
  EXPECT_LT(HashedNumberOf(bytes, 251, 5), 251u);
}

}  // namespace
}  // namespace svcmap::nft
