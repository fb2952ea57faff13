#include "proxy/connections/service_connections.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/unit/proxy/threads/loop_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ConnectionReaderTest : public LoopTest {
 protected:
  void SetUp() override {
    StartServing();  // Creates shop/first at 10.96.255.1.
    Program({AService("shop/web").At("10.96.0.1").At("fd00:96::1").Port(80)});
  }
  void Program(std::vector<Change> changes) {
    EXPECT_EQ(Await(Submit(std::move(changes))).outcome, BatchResult::Outcome::kCommitted);
  }
  void Count(const std::string& address, uint64_t connections) {
    const IpAddress ip = *IpAddress::Parse(address);
    const nft::FieldBytes key = ServiceIpKey(ip, Protocol::kTcp, 80);
    counts_[Index(ip.family())][{key.bytes().begin(), key.bytes().end()}] = connections;
  }
  std::unique_ptr<ConnectionReader> Reader(
      std::chrono::milliseconds lifetime = {},
      std::chrono::milliseconds patience = svcmap::testing::kHangLimit) {
    return std::make_unique<ConnectionReader>(
        *loop_,
        ConnectionReaderOptions{.read = [this](Family family) -> absl::StatusOr<PacketCounts> {
                                  ++reads_;
                                  if (!error_.ok()) return error_;
                                  return counts_[Index(family)];
                                },
                                .on_problem = [this](const absl::Status&) { ++problems_; },
                                .lifetime = lifetime,
                                .rest = 0,
                                .patience = patience});
  }
  // Returns counts as lines such as "shop/web 10.96.0.1 3".
  std::vector<std::string> Lines(const std::unique_ptr<ConnectionReader>& reader) {
    std::vector<std::string> lines;
    const auto connections = reader->Read();
    for (const ServiceConnections& at : *connections) {
      EXPECT_EQ(at.port, 80);
      EXPECT_EQ(at.reached_at, 80);
      EXPECT_EQ(at.protocol, Protocol::kTcp);
      lines.push_back(at.service + " " + at.address.ToString() + " " +
                      std::to_string(at.connections));
    }
    return lines;
  }

  PacketCounts counts_[2];
  absl::Status error_;
  int reads_ = 0;
  int problems_ = 0;
};

TEST_F(ConnectionReaderTest, MoreServicesThanAreAskedForAtOnceAreAllTold) {
  std::vector<Change> changes;
  for (int i = 0; i < 1100; ++i) changes.push_back(Numbered(i, 0)[0]);
  Program(changes);
  const auto reader = Reader();
  EXPECT_THAT(Lines(reader), SizeIs(1103));
}

// The reported counts must not decrease, even if the kernel removes a counter after a day or a dump
// misses a counter.
TEST_F(ConnectionReaderTest, WhatIsMissingKeepsItsCountAsLongAsTheServiceHasTheAddress) {
  Count("10.96.0.1", 3);
  const auto reader = Reader();
  Lines(reader);
  counts_[0].clear();
  EXPECT_THAT(Lines(reader), ElementsAre("shop/first 10.96.255.1 0", "shop/web 10.96.0.1 3",
                                         "shop/web fd00:96::1 0"));
  Count("10.96.0.1", 1);  // The kernel's counter has restarted at 0.
  EXPECT_THAT(Lines(reader)[1], "shop/web 10.96.0.1 1");
  counts_[0].clear();
  Program({NoService("shop/web")});
  EXPECT_THAT(Lines(reader), ElementsAre("shop/first 10.96.255.1 0"));
  Program({AService("shop/next").At("10.96.0.1").Port(80)});
  EXPECT_THAT(Lines(reader), ElementsAre("shop/first 10.96.255.1 0", "shop/next 10.96.0.1 0"));
}

TEST_F(ConnectionReaderTest, WhatWasReadStaysForAWhile) {
  const auto reader = Reader(std::chrono::hours(1));
  Lines(reader);
  Count("10.96.0.1", 3);
  EXPECT_THAT(Lines(reader)[1], "shop/web 10.96.0.1 0");
  EXPECT_EQ(reads_, 2);  // The reader reads the kernel's counters once per address family.
}

TEST_F(ConnectionReaderTest, AFailureIsReportedOnceAndTheCountsStay) {
  Count("10.96.0.1", 3);
  const auto reader = Reader();
  Lines(reader);
  error_ = absl::InternalError("no");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Lines(reader)[1], "shop/web 10.96.0.1 3");
  EXPECT_EQ(problems_, 1);
  error_ = absl::OkStatus();
  Lines(reader);
  error_ = absl::InternalError("no");
  Lines(reader);
  EXPECT_EQ(problems_, 2);
}

TEST_F(ConnectionReaderTest, WhoAsksDoesNotWaitForACommitThatHangs) {
  Count("10.96.0.1", 3);
  const auto reader = Reader();
  const std::vector<std::string> before = Lines(reader);
  auto impatient = Reader({}, std::chrono::milliseconds(0));
  gate_.Close();
  Answer answer = Submit({AService("shop/more").At("10.96.0.2").Port(80)});
  gate_.AwaitWaiter();
  EXPECT_THAT(Lines(impatient), IsEmpty());
  gate_.Open();
  Await(answer);
  impatient.reset();  // The destructor waits for the read in progress.
  EXPECT_THAT(Lines(reader), SizeIs(before.size() + 1));
}

TEST_F(ConnectionReaderTest, WhenTheLoopHasStoppedTheLastCountsAreReported) {
  Count("10.96.0.1", 3);
  const auto reader = Reader();
  const std::vector<std::string> before = Lines(reader);
  loop_->Stop();
  EXPECT_EQ(Lines(reader), before);
  const auto late = Reader();
  EXPECT_THAT(Lines(late), IsEmpty());
}

}  // namespace
}  // namespace svcmap::proxy::test
