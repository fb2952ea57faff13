#include "api/screen/frame_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/hostile/frames.h"

namespace svcmap::api {
namespace {

using hostile::Call;
using hostile::Frame;
using hostile::Greeting;
using hostile::Number32;

constexpr char kPath[] = "/svcmap.v1.Control/GetStatus";
constexpr FrameLimits kLimits{.max_streams = 4,
                              .reset_burst = 10,
                              .resets_per_second = 1,
                              .frame_burst = 50,
                              .frames_per_second = 10};
const auto kStart = FrameCheck::Clock::time_point() + std::chrono::hours(1);

uint32_t ClientStream(uint32_t n) { return 2 * n + 1; }

// Checks frames on a connection after the client has sent the HTTP/2 preface.
class FrameCheckTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Send(Greeting()), std::nullopt); }
  Offence Send(const std::string& bytes) { return check_.FromClient(bytes, now_); }
  // Simulates the server's response to a call, which ends the stream.
  Offence Answer(uint32_t stream) {
    return check_.FromServer(Frame(hostile::kHeaders, hostile::kEndHeaders, stream, "\x88") +
                                 Frame(hostile::kData, 0, stream, "12345") +
                                 Frame(hostile::kHeaders, 5, stream, "x"),
                             now_);
  }
  // Returns how many of the frames `make(0)`, `make(1)` and so on are allowed, up to 10,000.
  int Allowed(const std::function<std::string(uint32_t)>& make, Offence expected) {
    for (uint32_t n = 0; n < 10'000; ++n) {
      const Offence offence = Send(make(n));
      if (offence == std::nullopt) continue;
      EXPECT_EQ(offence, expected);
      return static_cast<int>(n);
    }
    return 10'000;
  }

  FrameCheck::Clock::time_point now_ = kStart;
  FrameCheck check_{kLimits, kStart};
};

TEST_F(FrameCheckTest, AnsweredCallsAreUnlimited) {
  for (uint32_t n = 0; n < 10'000; ++n) {
    const uint32_t stream = ClientStream(n);
    ASSERT_EQ(Send(Call(stream, kPath) +
                   Frame(hostile::kData, hostile::kEndStream, stream, std::string(5, '\0'))),
              std::nullopt);
    ASSERT_EQ(Answer(stream), std::nullopt);
    ASSERT_EQ(check_.open_streams(), 0u);
  }
}

TEST_F(FrameCheckTest, DataIsUnlimited) {
  ASSERT_EQ(Send(Call(1, kPath)), std::nullopt);
  EXPECT_EQ(Allowed([](uint32_t) { return Frame(hostile::kData, 0, 1, std::string(5, 'a')); },
                    std::nullopt),
            10'000);
}

TEST_F(FrameCheckTest, BytesMayArriveOneByOne) {
  FrameCheck check(kLimits, now_);
  const std::string bytes = Greeting() + Call(1, kPath) + Call(3, kPath);
  for (const char byte : bytes) {
    ASSERT_EQ(check.FromClient(std::string_view(&byte, 1), now_), std::nullopt);
  }
  EXPECT_TRUE(check.greeted());
  EXPECT_EQ(check.open_streams(), 2u);
}

TEST_F(FrameCheckTest, OtherProtocolsAreRejected) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(hostile::kPreface) + Call(1, kPath),
        std::string(hostile::kPreface) + Frame(hostile::kSettings, hostile::kAck, 0)}) {
    FrameCheck check(kLimits, now_);
    EXPECT_EQ(check.FromClient(bytes, now_), Rejection::kNotHttp2);
    EXPECT_FALSE(check.greeted());
  }
}

TEST_F(FrameCheckTest, OpenStreamsAreLimited) {
  EXPECT_EQ(
      Allowed([](uint32_t n) { return Call(ClientStream(n), kPath); }, Rejection::kTooManyStreams),
      4);
}

TEST_F(FrameCheckTest, StreamThatOnlyTheServerHasEndedIsOpen) {
  EXPECT_EQ(Allowed(
                [&](uint32_t n) {
                  if (n > 0) Answer(ClientStream(n - 1));
                  return Call(ClientStream(n), kPath);
                },
                Rejection::kTooManyStreams),
            4);
}

TEST_F(FrameCheckTest, ResetsOfTheClientAreLimitedInRate) {
  const auto reset = [](uint32_t first) {
    return [first](uint32_t n) {
      const uint32_t stream = ClientStream(first + n);
      return Call(stream, kPath) + Frame(hostile::kRstStream, 0, stream, Number32(8));
    };
  };
  for (uint32_t n = 0; n < 10; ++n) ASSERT_EQ(Send(reset(0)(n)), std::nullopt);
  now_ += std::chrono::seconds(3);
  EXPECT_EQ(Allowed(reset(10), Rejection::kTooManyResets), 3);
}

TEST_F(FrameCheckTest, ResetsThatTheClientCausesAreLimited) {
  Offence offence = std::nullopt;
  uint32_t n = 0;
  for (; offence == std::nullopt && n < 100; ++n) {
    ASSERT_EQ(Send(Call(ClientStream(n), kPath)), std::nullopt);
    offence = check_.FromServer(Frame(hostile::kRstStream, 0, ClientStream(n), Number32(1)), now_);
  }
  EXPECT_EQ(offence, Rejection::kTooManyResets);
  EXPECT_EQ(n, 11u);
}

TEST_F(FrameCheckTest, EndOfAnAnsweredStreamIsNoReset) {
  for (uint32_t n = 0; n < 100; ++n) {
    ASSERT_EQ(Send(Call(ClientStream(n), kPath)), std::nullopt);
    ASSERT_EQ(Answer(ClientStream(n)), std::nullopt);
    ASSERT_EQ(check_.FromServer(Frame(hostile::kRstStream, 0, ClientStream(n), Number32(0)), now_),
              std::nullopt);
  }
  EXPECT_EQ(check_.open_streams(), 0u);
}

TEST_F(FrameCheckTest, FramesWithoutDataAreLimited) {
  ASSERT_EQ(Send(Call(1, kPath)), std::nullopt);
  const std::string frames[] = {
      Frame(hostile::kPing, 0, 0, "12345678"),
      Frame(hostile::kWindowUpdate, 0, 1, Number32(1)),
      Frame(hostile::kPriority, 0, 1, Number32(0) + '\1'),
      Frame(hostile::kSettings, hostile::kAck, 0),
      Frame(hostile::kData, 0, 1),
      Frame(hostile::kData, 0, 1, "a"),
      Frame(hostile::kData, 0, 9, "a"),
      Frame(hostile::kRstStream, 0, 9, Number32(8)),
      Frame(0xf0, 0, 0, "12345678"),
  };
  const FrameCheck fresh = check_;
  for (const std::string& frame : frames) {
    check_ = fresh;
    const int allowed = Allowed([&](uint32_t) { return frame; }, Rejection::kTooManyFrames);
    EXPECT_GT(allowed, 40) << frame;
    EXPECT_LE(allowed, 50) << frame;
  }
  check_ = fresh;
  EXPECT_LE(
      Allowed([](uint32_t) { return Frame(hostile::kSettings, 0, 0); }, Rejection::kTooManyFrames),
      12);
}

TEST_F(FrameCheckTest, AnswersAllowFurtherFrames) {
  ASSERT_EQ(Send(Call(1, kPath)), std::nullopt);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(check_.FromServer(Frame(hostile::kData, 0, 1, "data"), now_), std::nullopt);
    ASSERT_EQ(Send(Frame(hostile::kWindowUpdate, 0, 0, Number32(4)) +
                   Frame(hostile::kWindowUpdate, 0, 1, Number32(4)) +
                   Frame(hostile::kPing, 0, 0, "12345678")),
              std::nullopt);
  }
}

TEST_F(FrameCheckTest, HeaderBlocksAreLimitedInBytesAndFrames) {
  const FrameCheck fresh = check_;
  const std::string open = Frame(hostile::kHeaders, 0, 1, "x");
  ASSERT_EQ(Send(open), std::nullopt);
  EXPECT_EQ(
      Allowed([](uint32_t) { return Frame(hostile::kContinuation, 0, 1, std::string(6000, 'a')); },
              Rejection::kHeaderBlockTooLarge),
      2);
  check_ = fresh;
  ASSERT_EQ(Send(open), std::nullopt);
  EXPECT_EQ(Allowed([](uint32_t) { return Frame(hostile::kContinuation, 0, 1); },
                    Rejection::kHeaderBlockTooLarge),
            8);
}

TEST_F(FrameCheckTest, NothingMayInterruptAHeaderBlock) {
  const FrameCheck fresh = check_;
  for (const std::string& next : {Frame(hostile::kPing, 0, 0, "12345678"),
                                  Frame(hostile::kContinuation, 0, 3), Call(3, kPath)}) {
    check_ = fresh;
    ASSERT_EQ(Send(Frame(hostile::kHeaders, 0, 1, "x")), std::nullopt);
    EXPECT_EQ(Send(next), Rejection::kNotHttp2);
  }
  check_ = fresh;
  EXPECT_EQ(Send(Frame(hostile::kContinuation, hostile::kEndHeaders, 1)), Rejection::kNotHttp2);
}

TEST_F(FrameCheckTest, RequestsOfOpenStreamsAreLimitedTogether) {
  FrameLimits limits = kLimits;
  limits.max_request_bytes = 1000;
  check_ = FrameCheck(limits, now_);
  ASSERT_EQ(Send(Greeting()), std::nullopt);
  for (uint32_t n = 0; n < 100; ++n) {  // Each call ends before the next call begins.
    const uint32_t stream = ClientStream(n);
    ASSERT_EQ(Send(Call(stream, kPath) +
                   Frame(hostile::kData, hostile::kEndStream, stream, std::string(900, 'a'))),
              std::nullopt);
    ASSERT_EQ(Answer(stream), std::nullopt);
  }
  ASSERT_EQ(Send(Call(1001, kPath) + Frame(hostile::kData, 0, 1001, std::string(900, 'a'))),
            std::nullopt);
  EXPECT_EQ(Send(Call(1003, kPath) + Frame(hostile::kData, 0, 1003, std::string(101, 'a'))),
            Rejection::kRequestsTooLarge);
}

TEST_F(FrameCheckTest, SmallDataFramesCountAsMoreThanTheirBytes) {
  FrameLimits limits = kLimits;
  limits.max_request_bytes = 6900;
  check_ = FrameCheck(limits, now_);
  ASSERT_EQ(Send(Greeting() + Call(1, kPath)), std::nullopt);
  EXPECT_EQ(Allowed([](uint32_t) { return Frame(hostile::kData, 0, 1, "abcde"); },
                    Rejection::kRequestsTooLarge),
            100);
}

TEST_F(FrameCheckTest, LargeFramesAreAllowedForDataOnly) {
  ASSERT_EQ(Send(Call(1, kPath)), std::nullopt);
  EXPECT_EQ(Send(Frame(hostile::kData, 0, 1, std::string(100'000, 'a'))), std::nullopt);
  EXPECT_EQ(Send(Frame(hostile::kHeaders, 4, 3, std::string(16385, 'a'))), Rejection::kNotHttp2);
}

}  // namespace
}  // namespace svcmap::api
