// A Service whose change takes several plans, and other batches meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

constexpr size_t kPortion = 4;

class LoopPortionsTest : public LoopTest {
 protected:
  LoopPortionsTest() : LoopTest({.node_name = "n1", .portion = kPortion}) {
    options_.max_elements = 10;
  }
};

TEST_F(LoopPortionsTest, BatchesOfTheOtherSourceOvertake) {
  Hold();
  Answer large = Submit(Numbered(1, 40));
  std::vector<Answer> others;
  for (int i = 2; i <= 4; ++i) others.push_back(SubmitOutOfBand(Numbered(i, 1)));
  Release();
  const uint64_t last = Await(large).revision;
  for (Answer& other : others) EXPECT_LT(Await(other).revision, last);
  ExpectConverged();
}

TEST_F(LoopPortionsTest, BatchesOfTheSameSourceKeepTheirOrder) {
  Hold();
  Answer large = Submit(Numbered(1, 40));
  Answer next = Submit(Numbered(2, 1));
  Release();
  EXPECT_GT(Await(next).revision, Await(large).revision);
  ExpectConverged();
}

TEST_F(LoopPortionsTest, AChangeOfTheSameServiceWaitsForIt) {
  Hold();
  Answer large = Submit(Numbered(1, 40));
  Answer other = SubmitOutOfBand(Numbered(1, 41));
  Release();
  EXPECT_EQ(Await(other).revision, Await(large).revision);
  ExpectConverged();
}

TEST_F(LoopPortionsTest, ASnapshotContainsALargeService) {
  Hold();
  Answer begin = Submit({}, Batch::Mark::kSnapshotBegin);
  std::vector<Answer> parts;
  for (int i = 1; i <= 5; ++i) parts.push_back(Submit(Numbered(i, i == 3 ? 40 : 2)));
  Answer end = Submit({}, Batch::Mark::kSnapshotEnd);
  Release();
  uint64_t last = 0;
  for (Answer& part : parts) {
    const uint64_t revision = Await(part).revision;
    EXPECT_GE(revision, last);
    last = revision;
  }
  EXPECT_EQ(Await(end).outcome, Outcome::kCommitted);
  ExpectConverged();
}

}  // namespace
}  // namespace svcmap::proxy::test
