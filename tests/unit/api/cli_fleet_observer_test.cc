#include "api/cli/fleet_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace svcmap::api {
namespace {

using namespace std::chrono_literals;

const fleet::SystemTimePoint kStart{std::chrono::seconds(1'790'000'000)};

class FleetObserverTest : public ::testing::Test {
 protected:
  void Node(const std::string& name, uint64_t seq, uint64_t rejected = 0,
            const std::string& reason = "") {
    values_[name] = fleet::ToJson(fleet::NodeStatus{.seq = seq,
                                                    .epoch = 1,
                                                    .revision = 1,
                                                    .healthy = reason.empty(),
                                                    .reason = reason,
                                                    .rejected = rejected,
                                                    .held = false,
                                                    .version = "1",
                                                    .time = kStart});
  }
  // `step` is a step of the system clock since kStart.
  nlohmann::json Observe(uint64_t required, std::chrono::seconds time, uint64_t epoch = 1,
                         std::chrono::seconds step = 0s) {
    const auto now = kStart + time + step;
    return nlohmann::json::parse(
        observer_.Observe({.seq = 20, .epoch = epoch, .nonce = {}}, required,
                          fleet::Summarize(names_, values_, required, now), now,
                          std::chrono::steady_clock::time_point(time)));
  }

  std::set<std::string> names_;
  std::map<std::string, std::string> values_;
  FleetObserver observer_;
};

TEST_F(FleetObserverTest, LagIsCountedInTransactionsAndSeconds) {
  Node("a", 10);
  Node("b", 10, 3, "two\nlines");
  names_ = {"c"};
  nlohmann::json event = Observe(10, 0s);
  EXPECT_EQ(event["nodes"], nlohmann::json::parse(R"([
      {"name":"b","state":"rejecting,unhealthy","lag":0,"behind_seconds":0,"rejected":3,
       "age_seconds":0,"reason":"two\\nlines"},
      {"name":"c","state":"silent","lag":0,"behind_seconds":0,"rejected":0,
       "age_seconds":null,"reason":""}])"));
  EXPECT_EQ(event["rejected_objects"], 3);
  EXPECT_EQ(event["head_seq"], 20);
  EXPECT_EQ(event["time"], "2026-09-21T14:13:20Z");
  EXPECT_TRUE(event["changes"].empty());

  Observe(14, 10s);  // A request for seq 14.
  Node("b", 14);
  event = Observe(14, 25s);
  EXPECT_EQ(event["max_lag"], 4);
  EXPECT_EQ(event["max_behind_seconds"], 15);
  EXPECT_EQ(event["nodes"][0]["name"], "a");
  EXPECT_EQ(event["nodes"][0]["behind_seconds"], 15);
  Node("a", 14);
  event = Observe(14, 30s);
  EXPECT_EQ(event["max_behind_seconds"], 0);
  EXPECT_EQ(event["problems"], 1);
}

TEST_F(FleetObserverTest, StepsOfTheClockDoNotChangeTheTimeBehind) {
  Node("a", 10);
  Observe(14, 0s);
  EXPECT_EQ(Observe(14, 5s, 1, 1h)["max_behind_seconds"], 5);
  EXPECT_EQ(Observe(14, 10s, 1, -2h)["nodes"][0]["behind_seconds"], 10);
}

TEST_F(FleetObserverTest, TheLatestChangesAreKept) {
  Node("a", 10);
  Node("b", 10);
  Observe(10, 0s);
  Node("a", 10, 1);
  Node("n", 10);
  values_.erase("b");
  const nlohmann::json changes = Observe(10, 5s, /*epoch=*/2)["changes"];
  EXPECT_EQ(changes, nlohmann::json::parse(R"([
      {"time":"2026-09-21T14:13:25Z","text":"b: removed"},
      {"time":"2026-09-21T14:13:25Z","text":"n: new -> ok"},
      {"time":"2026-09-21T14:13:25Z","text":"a: ok -> rejecting"},
      {"time":"2026-09-21T14:13:25Z","text":"new writer, epoch 2"}])"));
  for (int i = 0; i < 50; ++i) Node(absl::StrCat("more", i), 10);
  EXPECT_EQ(Observe(10, 6s, 2)["changes"].size(), FleetObserver::kMaxChanges);
}

TEST_F(FleetObserverTest, TheSizeOfAnEventIsBounded) {
  Observe(10, 0s);
  const std::string wild(100'000, '\\');
  for (int i = 0; i < 300; ++i) Node(absl::StrCat(wild, i), 1, 1'000'000'000, wild + "\x01\xff");
  const nlohmann::json event = Observe(10, 1s);
  EXPECT_EQ(event["problems"], 300);
  EXPECT_EQ(event["nodes"].size(), FleetObserver::kMaxNodes);
  EXPECT_LT(event.dump().size(), size_t{256} << 10);
  EXPECT_GT(event.dump().size(), size_t{32} << 10);
}

}  // namespace
}  // namespace svcmap::api
