#include "proxy/state/dirty_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace svcmap::proxy {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kNone = 1000;

std::vector<std::string> TakeAll(DirtyServices& dirty) {
  std::vector<std::string> keys;
  while (dirty.Next() != nullptr) {
    const std::string next = dirty.Next()->key;
    keys.push_back(dirty.Take().key);
    EXPECT_EQ(keys.back(), next);
  }
  return keys;
}

TEST(DirtyServicesTest, SmallBatchesPrecedeTheOthers) {
  DirtyServices dirty;
  dirty.Mark("large-1", 1);
  dirty.Mark("large-2", 1);
  dirty.Mark("small-1", {2, true});
  dirty.Mark("large-3", 3);
  dirty.Mark("small-2", {4, true});
  EXPECT_EQ(dirty.size(), 5u);
  EXPECT_EQ(dirty.First(kNone), 1u);
  EXPECT_EQ(dirty.FirstSmall(kNone), 2u);
  EXPECT_THAT(TakeAll(dirty), ElementsAre("small-1", "small-2", "large-1", "large-2", "large-3"));
  EXPECT_TRUE(dirty.empty());
  EXPECT_EQ(dirty.First(kNone), kNone);
  EXPECT_EQ(dirty.FirstSmall(kNone), kNone);
}

TEST(DirtyServicesTest, AServiceKeepsItsPlaceAndBatch) {
  DirtyServices dirty;
  dirty.Mark("a", {1, true});
  dirty.Mark("b", {2, true});
  dirty.Mark("a", 3);
  EXPECT_EQ(dirty.Next()->batch.sequence, 1u);
  EXPECT_THAT(TakeAll(dirty), ElementsAre("a", "b"));
}

TEST(DirtyServicesTest, ASmallBatchThatChangesAServiceOfALargeOneIsNotOnlySmall) {
  DirtyServices dirty;
  dirty.Mark("large", 1);
  dirty.Mark("small", {2, true});
  dirty.Mark("small", {2, true});  // The Service, and its EndpointSlice.
  EXPECT_TRUE(dirty.OnlySmall({2, true}));
  dirty.Mark("small", {3, true});
  EXPECT_TRUE(dirty.OnlySmall({3, true}));
  dirty.Mark("large", {4, true});
  EXPECT_FALSE(dirty.OnlySmall({4, true}));
  dirty.Mark("other", {5, true});
  EXPECT_TRUE(dirty.OnlySmall({5, true}));
  EXPECT_FALSE(dirty.OnlySmall({5, false}));
  EXPECT_THAT(TakeAll(dirty), ElementsAre("small", "other", "large"));
}

TEST(DirtyServicesTest, ReturnedServicesAreTheFirstOfTheirLists) {
  DirtyServices dirty;
  dirty.Mark("large-1", 1);
  dirty.Mark("large-2", 1);
  dirty.Mark("small", {2, true});
  std::vector<DirtyServices::Service> taken;
  taken.push_back(dirty.Take());
  taken.push_back(dirty.Take());
  dirty.Mark("later", {3, true});
  dirty.Return(std::move(taken));
  EXPECT_EQ(dirty.FirstSmall(kNone), 2u);
  EXPECT_THAT(TakeAll(dirty), ElementsAre("small", "later", "large-1", "large-2"));
}

}  // namespace
}  // namespace svcmap::proxy
