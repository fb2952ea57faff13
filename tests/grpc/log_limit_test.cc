// Tests that a client with write permission can cause only a limited number of log lines.
#include <gmock/gmock.h>
#include <grpc/support/log.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/grpc/server_fixture.h"
#include "tests/support/log_capture.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;
using svcmap::testing::Upsert;
using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

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

}  // namespace
}  // namespace svcmap::api
