// Tests of two controllers, one of which uses an outdated epoch.
#include <gmock/gmock.h>

#include "tests/grpc/server_fixture.h"
#include "tests/support/encoded.h"

namespace svcmap::api {
namespace {

using svcmap::testing::Upsert;
using ::testing::SizeIs;

class FencingTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    Serve();
  }
};

// The agent discards batches that are in flight when a controller with a higher epoch takes over.
TEST_F(FencingTest, NothingOfADeposedControllerIsTakenAnyMore) {
  ActiveSession holder;
  int ended = 0;
  const auto end = [&](const grpc::Status&) { ++ended; };
  ASSERT_TRUE(holder.Take(1, {.name = "a", .epoch = 1}, end).ok());
  EXPECT_TRUE(holder.Enter(1).owns_lock());
  ASSERT_TRUE(holder.Take(2, {.name = "b", .epoch = 2}, end).ok());
  EXPECT_EQ(ended, 1);
  int converted = 0;
  const absl::Status status = intake_->Submit(
      {}, 1,
      [&](int) {
        ++converted;
        return ConvertChange(testing::Encoded(Upsert(Web())), intake_->context());
      },
      [](const proxy::BatchResult&) { FAIL() << "taken"; }, {}, [&] { return holder.Enter(1); });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(converted, 1);
  EXPECT_THAT(List(v1::KIND_SERVICE), SizeIs(0));
}

TEST_F(FencingTest, TheLeaderIsSavedBeforeItCounts) {
  std::vector<proxy::Leader> saved;
  ActiveSession holder({.epoch = 5, .name = "a"},
                       [&](const proxy::Leader& leader) { saved.push_back(leader); });
  const auto end = [](const grpc::Status&) {};
  EXPECT_FALSE(holder.Take(1, {.name = "b", .epoch = 4}, end).ok());
  EXPECT_TRUE(holder.Take(2, {.name = "a", .epoch = 5}, end).ok());
  EXPECT_THAT(saved, SizeIs(0));
  EXPECT_TRUE(holder.Take(3, {.name = "b", .instance = "x", .epoch = 6}, end).ok());
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0], (proxy::Leader{6, "b", "x"}));
}

}  // namespace
}  // namespace svcmap::api
