// Tests of limits: log lines, findings and rejected calls of one client, and a hung disk.
#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/intake/intake.h"
#include "api/screen/rejections.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/log_capture.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using proxy::Finding;
using proxy::Kind;
using std::chrono::milliseconds;
using svcmap::testing::AService;
using svcmap::testing::kHangLimit;
using svcmap::testing::Upsert;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::SizeIs;
using Clock = std::chrono::steady_clock;

class LogLimitTest : public ServerTest {
 protected:
  static constexpr int kStreams = 300;

  void SetUp() override {
    ServerTest::SetUp();
    log_.emplace();
    // svcmapd counts a stream until slightly after the client sees its end.
    limits_.max_streams = kStreams;
    Serve();
  }
  void TearDown() override {
    ServerTest::TearDown();
    intake_.reset();
    service_.reset();
    log_.reset();
  }

  // Expects that `lines` of a client's lines were logged or counted, in at most `seconds` periods.
  void ExpectLimited(const std::string& text, uint64_t lines, uint64_t seconds) {
    loop_->Stop();
    server_.reset();
    service_.reset();
    intake_.reset();  // Logs the number of suppressed lines.
    uint64_t logged = 0;
    uint64_t suppressed = 0;
    for (const std::string& line : log_->Lines()) {
      if (line.find(text) != std::string::npos) ++logged;
      if (line.rfind("warning: log lines suppressed client=", 0) != 0) continue;
      EXPECT_THAT(line, HasSubstr("client=\"uid "));
      suppressed += std::stoull(line.substr(line.find("count=") + 6));
    }
    EXPECT_THAT(logged, Ge(1u));
    EXPECT_THAT(logged, Le(seconds * LineLimit::kLines));
    EXPECT_THAT(logged + suppressed, Ge(lines));
  }

  static v1::Object Bad(int number) {
    return AService("shop/bad-" + std::to_string(number)).ClusterIp("10.96.0.9").Port("", 0);
  }
  // Runs `fn` and returns the number of periods of the limit that it can have touched.
  template <typename Fn>
  static uint64_t Seconds(Fn fn) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    const auto time = std::chrono::steady_clock::now() - start;
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count()) +
           2;
  }

  std::optional<testing::LogCapture> log_;
};

// A client can send header fields with any bytes, which gRPC includes in its errors.
TEST_F(LogLimitTest, BytesOfAClientInErrorsOfGrpcAreEscaped) {
  std::vector<std::string> lines;
  // At most one such line per second is logged.
  EXPECT_TRUE(testing::WaitUntil([&] {
    gpr_log(GPR_ERROR, "value=\x84\x9b\x1b[2J");
    lines = log_->Lines();
    std::erase_if(lines, [](const std::string& line) {
      return line.find("gRPC error") == std::string::npos;
    });
    return !lines.empty();
  }));
  EXPECT_THAT(lines, Contains("warning: gRPC error error=\"value=\\x84\\x9b\\u001b[2J\""));
}

TEST_F(LogLimitTest, RejectedObjectsOfAStream) {
  constexpr int kObjects = 5000;
  const uint64_t seconds = Seconds([&] {
    Stream stream(*stub_, "test");
    std::vector<v1::Change> changes;
    for (int i = 0; i < kObjects; ++i) changes.push_back(Upsert(Bad(i)));
    ASSERT_TRUE(stream.Send(1, changes));
    EXPECT_EQ(stream.ReadAck().results_size(), kObjects);
  });
  ExpectLimited("object rejected", kObjects, seconds);
}

TEST_F(LogLimitTest, ClosedStreams) {
  const uint64_t seconds = Seconds([&] {
    for (int i = 0; i < kStreams; ++i) {
      Stream stream(*stub_);
      ASSERT_TRUE(stream.Send(1, {}));  // The first message must be open.
      EXPECT_EQ(stream.Finish().error_code(), grpc::INVALID_ARGUMENT);
    }
  });
  ExpectLimited("push stream closed", kStreams, seconds);
}

TEST_F(LogLimitTest, ControllersThatReplaceEachOther) {
  const uint64_t seconds = Seconds([&] {
    std::unique_ptr<Stream> previous;
    for (int i = 0; i < kStreams; ++i) {
      auto stream = std::make_unique<Stream>(*stub_);
      ASSERT_TRUE(stream->Open("test"));
      if (previous) {
        EXPECT_EQ(previous->Finish().error_code(), grpc::ABORTED);
      }
      previous = std::move(stream);
    }
  });
  ExpectLimited("controller connected", kStreams, seconds);
}

TEST(RejectedCallsTest, AllAreCountedAndOneOfAClientAndSecondIsLogged) {
  RejectedCalls rejected_calls;
  const RejectedCalls::Clock::time_point start;
  EXPECT_TRUE(rejected_calls.Add("a", "", start));
  EXPECT_FALSE(rejected_calls.Add("a", "", start + milliseconds(999)));
  EXPECT_TRUE(rejected_calls.Add("b", "", start + milliseconds(999)));
  EXPECT_TRUE(rejected_calls.Add("a", "", start + milliseconds(1000)));
  EXPECT_EQ(rejected_calls.count(), 4u);
}

TEST(RejectedCallsTest, ManyClientsAtOnceAreNotRemembered) {
  RejectedCalls rejected_calls;
  const RejectedCalls::Clock::time_point start;
  int logged = 0;
  for (int i = 0; i < 1000; ++i) logged += rejected_calls.Add(std::to_string(i), "", start) ? 1 : 0;
  EXPECT_EQ(logged, 64);
  EXPECT_EQ(rejected_calls.count(), 1000u);
  EXPECT_TRUE(rejected_calls.Add("a", "", start + milliseconds(1000)));
}

Finding Rejection(const std::string& key, const std::string& field) {
  return {.kind = Kind::kService, .key = key, .field = field};
}

class FullFindingsBookTest : public ::testing::Test {
 protected:
  FullFindingsBookTest() {
    for (size_t i = 0; i < FindingsBook::kMaxObjects; ++i) {
      const std::string key = absl::StrCat("shop/s", i);
      book_.Set(Kind::kService, key, {Rejection(key, "before")});
    }
  }

  FindingsBook book_;
};

TEST_F(FullFindingsBookTest, DropsFindingsOfFurtherObjects) {
  book_.Set(Kind::kService, "shop/more", {Rejection("shop/more", "before")});
  book_.Add({Rejection("shop/more", "before")});
  EXPECT_THAT(book_.All(), SizeIs(FindingsBook::kMaxObjects));
}

TEST_F(FullFindingsBookTest, ReplacesFindingsOfAStoredObject) {
  book_.BeginSnapshot();
  for (size_t i = 0; i < FindingsBook::kMaxObjects; ++i) {
    const std::string key = absl::StrCat("shop/s", i);
    book_.Set(Kind::kService, key, {Rejection(key, "after")});
  }
  book_.EndSnapshot();
  EXPECT_THAT(book_.All(), SizeIs(FindingsBook::kMaxObjects));
  EXPECT_THAT(book_.All(), Each(Field(&Finding::field, "after")));
}

TEST_F(FullFindingsBookTest, AddsFindingsToAStoredObject) {
  book_.Add({Rejection("shop/more", "x"), Rejection("shop/s7", "added")});
  EXPECT_THAT(book_.All(), SizeIs(FindingsBook::kMaxObjects + 1));
}

// Tests that a disk, a log or a kernel that does not answer delays neither status calls nor other
// controllers.
class HungDiskTest : public ServerTest {
 protected:
  // Blocks the calling thread until Recover() is called.
  void Hang() {
    reached_.set_value();
    recovered_.get_future().wait();
  }
  void AwaitHang() {
    ASSERT_EQ(reached_.get_future().wait_for(kHangLimit), std::future_status::ready);
  }
  void Recover() { recovered_.set_value(); }

  void ExpectStatusSoon() {
    const auto start = Clock::now();
    status_ = GetStatus();
    EXPECT_LT(Clock::now() - start, kHangLimit);
  }

  std::promise<void> reached_, recovered_;
  std::shared_ptr<spdlog::logger> hung_logger_;  // Outlives the threads that use it.
  v1::GetStatusResponse status_;
};

TEST_F(HungDiskTest, StatusAndTheControllerGoOnWhileAnEpochIsSaved) {
  save_leader_ = [this](const proxy::Leader& leader) {
    if (leader.epoch == 2) Hang();
  };
  Serve();
  Stream first(*stub_), second(*stub_);
  ASSERT_TRUE(first.Open("a", 1));
  std::future<bool> opened = std::async(std::launch::async, [&] { return second.Open("b", 2); });
  AwaitHang();
  ExpectStatusSoon();
  EXPECT_EQ(status_.controller().name(), "a");
  ASSERT_TRUE(first.Send(1, {Upsert(Web())}));
  EXPECT_EQ(first.ReadAck().outcome(), v1::COMMITTED);
  Recover();
  EXPECT_TRUE(opened.get());
  EXPECT_EQ(first.Finish().error_code(), grpc::ABORTED);
  EXPECT_EQ(GetStatus().controller().name(), "b");
}

// A log sink that blocks until the test releases it.
class HungSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit HungSink(std::function<void()> hang) : hang_(std::move(hang)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (text.find("shop/bad") != text.npos && !hung_.exchange(true)) hang_();
  }
  void flush_() override {}

 private:
  std::function<void()> hang_;
  std::atomic<bool> hung_ = false;
};

TEST_F(HungDiskTest, StatusDoesNotWaitForFindingsToBeLogged) {
  Serve();
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  Stream stream(*stub_, "a");
  hung_logger_ =
      std::make_shared<spdlog::logger>("hung", std::make_shared<HungSink>([this] { Hang(); }));
  spdlog::set_default_logger(hung_logger_);
  ASSERT_TRUE(stream.Send(1, {Upsert(AService("shop/bad").ClusterIp("10.96.0.9").Port("", 0))}));
  AwaitHang();
  ExpectStatusSoon();
  Recover();
  stream.ReadAck();
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace svcmap::api
