// Tests the processing stages in GetStatusResponse.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using std::chrono::nanoseconds;
using svcmap::testing::ASlice;
using svcmap::testing::Upsert;

nanoseconds ToNanos(const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) + nanoseconds(duration.nanos());
}

TEST_F(ServerTest, EachBatchIsInEachStageAndNoStageOverlapsAnother) {
  constexpr int kBatches = 5;
  Serve();
  Stream stream(*stub_, "test");
  ASSERT_TRUE(stream.Send(1, {Upsert(Web())}));
  stream.ReadAck();
  AwaitTurn();
  std::map<std::string, v1::StageTime> before;
  const v1::GetStatusResponse first = GetStatus();
  for (const v1::StageTime& stage : first.stages()) before[stage.name()] = stage;
  ASSERT_EQ(before.size(), proxy::kStages);

  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i <= kBatches; ++i) {
    const v1::Object slice =
        ASlice("shop/web").Endpoint("10.1.0." + std::to_string(i)).Port("http", 8080);
    ASSERT_TRUE(stream.Send(static_cast<uint64_t>(i) + 1, {Upsert(slice)}));
    EXPECT_EQ(stream.ReadAck().outcome(), v1::COMMITTED);
    AwaitTurn();  // The Ack may arrive before the agent has recorded the stage durations.
  }
  const nanoseconds wall = std::chrono::steady_clock::now() - start;

  const v1::GetStatusResponse last = GetStatus();
  nanoseconds together{0};
  for (const v1::StageTime& stage : last.stages()) {
    // The first batch adds the first endpoint, so the rejection of connections ends.
    const uint64_t expected = stage.name() == "remove" ? 1 : kBatches;
    EXPECT_EQ(stage.count() - before[stage.name()].count(), expected) << stage.name();
    const nanoseconds took = ToNanos(stage.sum()) - ToNanos(before[stage.name()].sum());
    EXPECT_GE(took.count(), 0) << stage.name();
    EXPECT_LE(ToNanos(stage.last()), ToNanos(stage.longest())) << stage.name();
    together += took;
  }
  EXPECT_LE(together.count(), wall.count());
}

}  // namespace
}  // namespace svcmap::api
