// Tests the times of status writes with a fake clock, and the summary of a fleet.
#include "api/etcd/node_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace svcmap::etcd::test {
namespace {

using fleet::NodeStatus;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const fleet::SystemTimePoint kTime{seconds(1'790'000'000)};

NodeStatus Healthy(uint64_t seq) {
  return {.seq = seq,
          .epoch = 1,
          .revision = 7,
          .healthy = true,
          .reason = {},
          .rejected = 0,
          .held = false,
          .version = "1.2",
          .time = kTime};
}

NodeStatus Unhealthy(uint64_t seq) {
  NodeStatus status = Healthy(seq);
  status.healthy = false;
  status.reason = "svcmapd not synced";
  return status;
}

class StatusWriterTest : public ::testing::Test {
 protected:
  // Advances the clock in steps of 1 s, and writes whenever a write is due. Returns the times of
  // the writes in seconds since the start.
  std::vector<int> Run(const NodeStatus& status, int until) {
    std::vector<int> writes;
    for (; second_ < until; ++second_) {
      if (!writer_.Due(status, Now())) continue;
      writer_.Written(status, Now());
      writes.push_back(second_);
    }
    return writes;
  }
  StatusWriter::Clock::time_point Now() const { return start_ + seconds(second_); }

  const StatusWriter::Clock::time_point start_{1000s};
  int second_ = 0;
  double random_ = 0.5;
  StatusWriter writer_{start_, [this] { return random_; }};
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(StatusWriterTest, PeriodicWritesBeginAtARandomTime) {
  EXPECT_THAT(Run(Healthy(1), 1000), ElementsAre(150, 450, 750));
}

TEST_F(StatusWriterTest, AChangeIsWrittenAtMostEvery5Seconds) {
  EXPECT_THAT(Run(Healthy(1), 200), ElementsAre(150));
  EXPECT_THAT(Run(Unhealthy(1), 202), ElementsAre(200));
  NodeStatus rejecting = Healthy(1);
  rejecting.rejected = 3;
  EXPECT_THAT(Run(rejecting, 210), ElementsAre(205));
  rejecting.held = true;
  EXPECT_THAT(Run(rejecting, 230), ElementsAre(210));
  rejecting.seq = 9;  // Other fields cause no write.
  rejecting.revision = 9;
  EXPECT_THAT(Run(rejecting, 300), IsEmpty());
}

TEST_F(StatusWriterTest, AStartIsNotReportedAsUnhealthy) {
  EXPECT_THAT(Run(Unhealthy(0), 29), IsEmpty());
  EXPECT_THAT(Run(Unhealthy(0), 100), ElementsAre(30));
}

TEST_F(StatusWriterTest, AnOldUnhealthyStatusIsReplaced) {
  writer_.Found(Unhealthy(1));
  EXPECT_THAT(Run(Unhealthy(0), 3), IsEmpty());
  EXPECT_THAT(Run(Healthy(1), 10), ElementsAre(3));
}

TEST_F(StatusWriterTest, ARequestIsAnsweredOnceAfterItsSeq) {
  writer_.Asked({.seq = 5, .window = 20s});
  EXPECT_THAT(Run(Healthy(4), 50), IsEmpty());
  EXPECT_THAT(Run(Healthy(6), 140), ElementsAre(60));   // After a half of the window.
  writer_.Asked({.seq = 5, .window = 0s});              // The same request again.
  EXPECT_THAT(Run(Healthy(6), 400), ElementsAre(140));  // The write at 150 is omitted.
}

TEST_F(StatusWriterTest, LaterRequestsDoNotPostponeTheAnswer) {
  std::vector<int> writes;
  for (int second = 1; second <= 6; ++second) {
    writer_.Asked({.seq = 5, .window = 10s});
    for (const int write : Run(Healthy(5), second)) writes.push_back(write);
  }
  EXPECT_THAT(writes, ElementsAre(5));
  writer_.Asked({.seq = 6, .window = 0s});
  EXPECT_THAT(Run(Healthy(5), 30), IsEmpty());
  EXPECT_THAT(Run(Healthy(6), 40), ElementsAre(30));
}

TEST_F(StatusWriterTest, AnyWriteAnswersTheRequest) {
  EXPECT_THAT(Run(Healthy(4), 160), ElementsAre(150));
  writer_.Asked({.seq = 5, .window = 60s});
  EXPECT_THAT(Run(Healthy(5), 170), IsEmpty());
  EXPECT_THAT(Run(Unhealthy(5), 400), ElementsAre(170));
}

TEST_F(StatusWriterTest, ARestartDoesNotAnswerAgain) {
  writer_.Found(Healthy(5));
  writer_.Asked({.seq = 5, .window = 0s});
  EXPECT_THAT(Run(Healthy(5), 100), IsEmpty());
  writer_.Asked({.seq = 6, .window = 0s});
  EXPECT_THAT(Run(Healthy(6), 110), ElementsAre(100));
}

TEST_F(StatusWriterTest, AFailedWriteIsRepeatedLater) {
  writer_.Asked({.seq = 1, .window = 0s});
  ASSERT_TRUE(writer_.Due(Healthy(1), Now()));
  EXPECT_TRUE(writer_.Failed(Now()));
  EXPECT_FALSE(writer_.Due(Healthy(1), Now() + 700ms));
  ASSERT_TRUE(writer_.Due(Healthy(1), Now() + 800ms));
  EXPECT_FALSE(writer_.Failed(Now() + 800ms));
  EXPECT_FALSE(writer_.Due(Healthy(1), Now() + 2s));
  ASSERT_TRUE(writer_.Due(Healthy(1), Now() + 3s));
  writer_.Written(Healthy(1), Now() + 3s);
  EXPECT_TRUE(writer_.Failed(Now() + 4s));  // The next failure is logged again.
}

// A request shows that etcd accepts writes again.
TEST_F(StatusWriterTest, ARequestIsAnsweredWithoutTheDelayOfEarlierFailures) {
  ASSERT_TRUE(writer_.Failed(Now()));
  for (int i = 0; i < 10; ++i) writer_.Failed(Now());
  writer_.Asked({.seq = 1, .window = 0s});
  EXPECT_TRUE(writer_.Due(Healthy(1), Now()));
}

TEST(NodeStatusTest, JsonContainsAllFields) {
  EXPECT_EQ(fleet::ToJson(Unhealthy(3)),
            R"({"epoch":1,"healthy":false,"held":false,"reason":"svcmapd not synced",)"
            R"("rejected":0,"revision":7,"seq":3,"time":"2026-09-21T14:13:20Z","version":"1.2"})");
  const auto parsed = fleet::ParseStatus(fleet::ToJson(Unhealthy(3)));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Unhealthy(3));
  NodeStatus reachable = Healthy(3);
  reachable.agent = "tcp://n1:7070";
  EXPECT_THAT(fleet::ToJson(reachable), HasSubstr(R"({"agent":"tcp://n1:7070",)"));
  const auto parsed_reachable = fleet::ParseStatus(fleet::ToJson(reachable));
  ASSERT_TRUE(parsed_reachable.ok()) << parsed_reachable.status();
  EXPECT_EQ(*parsed_reachable, reachable);
  EXPECT_THAT(std::string(fleet::ParseStatus(R"({"seq":-1})").status().message()),
              HasSubstr("seq: must be a non-negative integer"));
  EXPECT_THAT(std::string(fleet::ParseStatus("x").status().message()),
              HasSubstr("must be a JSON object"));
  NodeStatus early = Unhealthy(3);
  early.time = fleet::SystemTimePoint() - 1s;
  EXPECT_THAT(std::string(fleet::ParseStatus(fleet::ToJson(early)).status().message()),
              HasSubstr("time: must not be before 1970"));
  EXPECT_THAT(std::string(fleet::ParseAsk(R"({"seq":1,"window_seconds":3601})").status().message()),
              HasSubstr("window_seconds: must be at most 3600"));
  const auto ask = fleet::ParseAsk(fleet::ToJson(fleet::Ask{.seq = 4, .window = 5s}));
  ASSERT_TRUE(ask.ok()) << ask.status();
  EXPECT_EQ(ask->seq, 4u);
  EXPECT_EQ(ask->window, 5s);
}

TEST(FleetSummaryTest, ANodeCanHaveSeveralProblems) {
  NodeStatus rejecting = Unhealthy(4);
  rejecting.rejected = 2;
  NodeStatus old = Healthy(5);
  old.time = kTime - 601s;
  const fleet::Summary summary = fleet::Summarize({"a", "b"},
                                                  {{"b", fleet::ToJson(rejecting)},
                                                   {"c", fleet::ToJson(Healthy(5))},
                                                   {"d", fleet::ToJson(old)},
                                                   {"e", "damaged"}},
                                                  5, kTime);
  std::string names;
  for (const fleet::FleetNode& node : summary.nodes) names += node.name;
  EXPECT_EQ(names, "abcde");
  EXPECT_EQ(summary.up_to_date, 2u);
  EXPECT_EQ(summary.behind, 1u);
  EXPECT_EQ(summary.rejecting, 1u);
  EXPECT_EQ(summary.unhealthy, 1u);
  EXPECT_EQ(summary.silent, 3u);
  EXPECT_TRUE(fleet::Reached(summary, 40));
  EXPECT_FALSE(fleet::Reached(summary, 41));
  EXPECT_FALSE(fleet::Reached({}, 1));
}

// The time of a status comes from the clock of the node.
TEST(FleetSummaryTest, ANodeWithAWrongClockIsSilent) {
  for (const auto difference : {-3600s, -601s, -600s, 0s, 600s, 601s, 3600s}) {
    NodeStatus status = Healthy(5);
    status.time = kTime + difference;
    const fleet::Summary summary = fleet::Summarize({}, {{"n1", fleet::ToJson(status)}}, 5, kTime);
    EXPECT_EQ(summary.silent, std::chrono::abs(difference) > 600s ? 1u : 0u) << difference.count();
    EXPECT_EQ(summary.up_to_date, 1u);  // The sequence number does not depend on clocks.
    EXPECT_TRUE(fleet::Reached(summary, 100));
  }
}

}  // namespace
}  // namespace svcmap::etcd::test
