#include "proxy/state/dirty_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace svcmap::proxy {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kNone = DirtyService::kNone;

class DirtyServicesTest : public ::testing::Test {
 protected:
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    dirty_.ForEach([&](const DirtyService& service) { keys.push_back(service.key); });
    EXPECT_EQ(keys.size(), dirty_.size());
    return keys;
  }
  // Returns FirstChange() of both sources.
  std::vector<uint64_t> FirstChanges() const {
    return {dirty_.FirstChange(ChangeSource::kStream), dirty_.FirstChange(ChangeSource::kOthers)};
  }

  DirtyServices dirty_;
};

TEST_F(DirtyServicesTest, ServicesAreInTheOrderOfTheirFirstChange) {
  dirty_.Mark("b", 1, ChangeSource::kStream);
  dirty_.Mark("a", 2, ChangeSource::kOthers);
  dirty_.Mark("b", 3, ChangeSource::kOthers);
  EXPECT_THAT(Keys(), ElementsAre("b", "a"));
  const DirtyService first = dirty_.Take();
  EXPECT_EQ(first.key, "b");
  EXPECT_EQ(first.sequence, 1u);
  EXPECT_THAT(first.first, ElementsAre(1u, 3u));
  EXPECT_THAT(dirty_.Take().first, ElementsAre(kNone, 2u));
  EXPECT_EQ(dirty_.First(), nullptr);
}

TEST_F(DirtyServicesTest, ChangesOfOneSourceWaitForEarlierOnesOfTheOther) {
  dirty_.Mark("a", 5, ChangeSource::kStream);
  dirty_.Mark("b", 6, ChangeSource::kOthers);
  EXPECT_THAT(FirstChanges(), ElementsAre(5u, 5u));
  dirty_.Take();
  EXPECT_THAT(FirstChanges(), ElementsAre(6u, 6u));
  dirty_.Take();
  EXPECT_THAT(FirstChanges(), ElementsAre(kNone, kNone));
}

TEST_F(DirtyServicesTest, AnUnfinishedServiceDelaysOnlyTheSourcesThatChangedIt) {
  dirty_.Mark("large", 5, ChangeSource::kStream);
  dirty_.PutUnfinished(dirty_.Take());
  EXPECT_EQ(dirty_.First(), nullptr);
  EXPECT_FALSE(dirty_.Contains("large"));
  EXPECT_THAT(Keys(), ElementsAre("large"));
  EXPECT_THAT(FirstChanges(), ElementsAre(5u, kNone));
  dirty_.Mark("a", 6, ChangeSource::kOthers);
  EXPECT_THAT(Keys(), ElementsAre("a", "large"));
  EXPECT_THAT(FirstChanges(), ElementsAre(5u, 6u));
  EXPECT_TRUE(dirty_.HasUnfinished());
  EXPECT_EQ(dirty_.TakeUnfinished().sequence, 5u);
  EXPECT_THAT(FirstChanges(), ElementsAre(6u, 6u));
}

TEST_F(DirtyServicesTest, AnUnfinishedServiceThatChangesAgainKeepsItsFirstChanges) {
  dirty_.Mark("large", 5, ChangeSource::kStream);
  dirty_.PutUnfinished(dirty_.Take());
  dirty_.Mark("large", 7, ChangeSource::kOthers);
  EXPECT_FALSE(dirty_.HasUnfinished()) << "it is taken from the list";
  EXPECT_THAT(Keys(), ElementsAre("large"));
  EXPECT_THAT(FirstChanges(), ElementsAre(5u, 7u));
  const DirtyService again = dirty_.Take();
  EXPECT_EQ(again.sequence, 5u);
  EXPECT_THAT(again.first, ElementsAre(5u, 7u));
  EXPECT_THAT(Keys(), ElementsAre());
}

TEST_F(DirtyServicesTest, ReturnedServicesComeFirst) {
  dirty_.Mark("a", 1, ChangeSource::kStream);
  dirty_.Mark("b", 2, ChangeSource::kStream);
  dirty_.Mark("c", 3, ChangeSource::kStream);
  dirty_.PutUnfinished(dirty_.Take());
  dirty_.PutUnfinished(dirty_.Take());
  dirty_.PutUnfinished(dirty_.TakeUnfinished());
  dirty_.ReturnUnfinished();
  EXPECT_THAT(Keys(), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(dirty_.HasUnfinished());
  const DirtyService a = dirty_.Take();
  dirty_.Return({a});
  EXPECT_THAT(Keys(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(dirty_.Take().first, ElementsAre(1u, kNone));
}

TEST_F(DirtyServicesTest, NoBatchWaitsForAChangeByNoBatch) {
  dirty_.Mark("large", 0, ChangeSource::kStream);
  dirty_.PutUnfinished(dirty_.Take());
  EXPECT_THAT(FirstChanges(), ElementsAre(kNone, kNone));
}

}  // namespace
}  // namespace svcmap::proxy
