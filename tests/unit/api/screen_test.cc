// Tests of the checks before gRPC: frames, unread responses, and the connections that a Screen
// closes. Socket pairs stand in for clients and gRPC.
#include "api/screen/screen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/screen/frame_check.h"
#include "tests/hostile/frames.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using hostile::Call;
using hostile::Frame;
using hostile::Greeting;
using hostile::Number32;
using std::chrono::milliseconds;
using svcmap::testing::WaitUntil;

class ScreenTest : public ::testing::Test {
 protected:
  void Start(ScreenOptions options = {}) {
    options.hand_over = [this](UniqueFd fd, const Peer&) {
      const std::lock_guard lock(mutex_);
      handed_over_.push_back(std::move(fd));
    };
    auto screen = Screen::Start(std::move(options), rejections_);
    ASSERT_TRUE(screen.ok()) << screen.status();
    screen_ = *std::move(screen);
  }

  // Returns the client's end of a new connection, after sending `bytes`.
  UniqueFd Connect(const std::string& bytes, Role role = Role::kRead, bool trusted = false) {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    UniqueFd client(fds[0]);
    EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    screen_->Add(UniqueFd(fds[1]),
                 {.key = "peer", .name = "peer", .role = role, .trusted = trusted});
    return client;
  }
  UniqueFd ConnectTrusted(const std::string& bytes) { return Connect(bytes, Role::kWrite, true); }

  size_t handed_over() {
    const std::lock_guard lock(mutex_);
    return handed_over_.size();
  }
  // Closes gRPC's ends, as gRPC does after it has freed the calls of a connection.
  void CloseGrpcEnds() {
    const std::lock_guard lock(mutex_);
    handed_over_.clear();
  }
  // Returns the number of all counted rejections.
  uint64_t Counted() const {
    uint64_t sum = 0;
    for (int i = 0; i < kRejections; ++i) sum += rejections_.count(static_cast<Rejection>(i));
    return sum;
  }

  Rejections rejections_;
  std::mutex mutex_;
  std::vector<UniqueFd> handed_over_;  // gRPC's ends of the connections. Guarded by mutex_.
  std::unique_ptr<Screen> screen_;
};

TEST_F(ScreenTest, AnOffenceIsCountedAndItsConnectionCountsUntilGrpcClosesItsEnd) {
  Start();
  {
    // While the test has the mutex, the connection is not handed over, and the flood is not read.
    const std::lock_guard lock(mutex_);
    const UniqueFd client = Connect(hostile::Greeting());
    ASSERT_TRUE(WaitUntil([&] {
      int unread = -1;
      return ioctl(client.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
    }));
    std::string flood;
    for (int i = 0; i < 2000; ++i) flood += hostile::Frame(hostile::kPing, 0, 0, "12345678");
    ASSERT_EQ(send(client.get(), flood.data(), flood.size(), 0),
              static_cast<ssize_t>(flood.size()));
  }
  EXPECT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kTooManyFrames) == 1; }));
  EXPECT_EQ(screen_->connections(), 1u);  // gRPC still uses the connection.
  CloseGrpcEnds();
  EXPECT_TRUE(WaitUntil([&] { return screen_->connections() == 0; }));
  EXPECT_EQ(Counted(), 1u);
}

TEST_F(ScreenTest, ConnectionsThatMakeRoomAreCountedOnce) {
  Start({.connections = {.max_connections = 2}});
  const UniqueFd silent = Connect("");
  const UniqueFd reader = Connect(hostile::Greeting());
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  const UniqueFd first = Connect(hostile::Greeting(), Role::kWrite);
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 2; }));
  ASSERT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kMadeRoom) == 1; }));
  const UniqueFd second = Connect(hostile::Greeting(), Role::kWrite);
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 3; }));
  {
    // As gRPC does when a client closes its end.
    const std::lock_guard lock(mutex_);
    handed_over_[0] = UniqueFd();
  }
  ASSERT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kMadeRoom) == 2; }));
  EXPECT_EQ(Counted(), 2u);
}

TEST_F(ScreenTest, ConnectionsThatTheClientOrGrpcClosesAreNotCounted) {
  Start();
  UniqueFd client = Connect(hostile::Greeting());
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  client = UniqueFd();
  const UniqueFd other = Connect(hostile::Greeting());
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 2; }));
  CloseGrpcEnds();
  ASSERT_TRUE(WaitUntil([&] { return screen_->connections() == 0; }));
  EXPECT_EQ(Counted(), 0u);
}

// Returns the bytes that have arrived.
std::string Receive(const UniqueFd& fd) {
  std::string bytes(size_t{1} << 20, '\0');
  const ssize_t received = recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(received > 0 ? static_cast<size_t>(received) : 0);
  return bytes;
}

TEST_F(ScreenTest, GrpcReadsEachByteOfATrustedClientFromTheSocketOfTheClient) {
  Start();
  const std::string greeting = hostile::Greeting();
  const UniqueFd client = ConnectTrusted(greeting.substr(0, 10));
  const std::string rest = greeting.substr(10);
  ASSERT_EQ(send(client.get(), rest.data(), rest.size(), 0), static_cast<ssize_t>(rest.size()));
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  std::string flood;
  for (int i = 0; i < 2000; ++i) flood += hostile::Frame(hostile::kPing, 0, 0, "12345678");
  ASSERT_EQ(send(client.get(), flood.data(), flood.size(), 0), static_cast<ssize_t>(flood.size()));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(Receive(handed_over_[0]), greeting + flood);
  ASSERT_EQ(send(handed_over_[0].get(), "answer", 6, 0), 6);
  EXPECT_EQ(Receive(client), "answer");
  EXPECT_EQ(screen_->connections(), 1u);
  EXPECT_EQ(Counted(), 0u);
}

TEST_F(ScreenTest, TheConnectionOfATrustedClientCountsUntilGrpcClosesIt) {
  Start();
  UniqueFd client = ConnectTrusted(hostile::Greeting());
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  client = UniqueFd();
  const UniqueFd other = ConnectTrusted(hostile::Greeting());
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 2; }));
  EXPECT_EQ(screen_->connections(), 2u);
  {
    // As gRPC does at the end of a connection.
    const std::lock_guard lock(mutex_);
    shutdown(handed_over_[1].get(), SHUT_RDWR);
  }
  CloseGrpcEnds();
  EXPECT_TRUE(WaitUntil([&] { return screen_->connections() == 0; }));
  pollfd closed = {.fd = other.get(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(poll(&closed, 1, 0), 1);
  EXPECT_EQ(Counted(), 0u);
}

TEST_F(ScreenTest, TrustedClientsMustSendThePrefaceInTime) {
  Start({.greet_within = milliseconds(100)});
  const UniqueFd silent = ConnectTrusted(hostile::Greeting().substr(0, 10));
  EXPECT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kGreetingTimeout) == 1; }));
  const UniqueFd other = ConnectTrusted("GET / HTTP/1.1");
  EXPECT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kNotHttp2) == 1; }));
  EXPECT_TRUE(WaitUntil([&] { return screen_->connections() == 0; }));
  EXPECT_EQ(handed_over(), 0u);
  EXPECT_EQ(Counted(), 2u);
}

// Returns a connected pair of TCP sockets: the client's end and the agent's end.
std::pair<UniqueFd, UniqueFd> TcpPair() {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  UniqueFd agent(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  fcntl(client.get(), F_SETFL, O_NONBLOCK);
  return {std::move(client), std::move(agent)};
}

// Clients whose responses fill all socket buffers.
class UnreadResponsesTest : public ScreenTest, public ::testing::WithParamInterface<const char*> {
 protected:
  UniqueFd ConnectClient() {
    if (std::string_view(GetParam()) == "unix") return Connect(hostile::Greeting());
    if (std::string_view(GetParam()) == "trusted") return ConnectTrusted(hostile::Greeting());
    auto [client, agent] = TcpPair();
    const std::string greeting = hostile::Greeting();
    EXPECT_EQ(send(client.get(), greeting.data(), greeting.size(), 0),
              static_cast<ssize_t>(greeting.size()));
    screen_->Add(std::move(agent), {.key = "peer", .name = "peer", .role = Role::kRead});
    return std::move(client);
  }
  // Sends a frame from gRPC's end of the last connection. Returns false if the buffer is full.
  bool SendFrame() {
    const std::lock_guard lock(mutex_);
    const ssize_t sent = send(handed_over_.back().get(), frame_.data() + sent_,
                              frame_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return false;
    sent_ = (sent_ + static_cast<size_t>(sent)) % frame_.size();
    return true;
  }
  // Sends frames until the buffers have been full for 100 ms.
  void FillBuffers() {
    for (auto full_since = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() - full_since < milliseconds(100);) {
      if (SendFrame()) {
        full_since = std::chrono::steady_clock::now();
      } else {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }

  const std::string frame_ = hostile::Frame(hostile::kData, 0, 1, std::string(16000, 'x'));
  size_t sent_ = 0;  // Number of bytes of the current frame that were sent.
};

TEST_P(UnreadResponsesTest, CloseTheConnectionAfterTheTimeLimit) {
  Start({.unread_within = milliseconds(500)});
  const UniqueFd client = ConnectClient();
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  FillBuffers();
  ASSERT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kResponsesNotRead) == 1; }));
  CloseGrpcEnds();
  EXPECT_TRUE(WaitUntil([&] { return screen_->connections() == 0; }));
  EXPECT_EQ(Counted(), 1u);
}

TEST_P(UnreadResponsesTest, CloseTheConnectionOfAClientThatEndsItsRequests) {
  Start({.unread_within = milliseconds(500)});
  const UniqueFd client = ConnectClient();
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  FillBuffers();
  ASSERT_EQ(shutdown(client.get(), SHUT_WR), 0);
  EXPECT_TRUE(WaitUntil([&] {
    const std::lock_guard lock(mutex_);
    pollfd grpc_end = {.fd = handed_over_[0].get(), .events = 0, .revents = 0};
    return poll(&grpc_end, 1, 0) == 1;  // POLLHUP: a blocked write of gRPC fails.
  }));
  CloseGrpcEnds();
  EXPECT_TRUE(WaitUntil([&] { return screen_->connections() == 0; }));
}

TEST_P(UnreadResponsesTest, ASlowReaderIsNotDisconnected) {
  constexpr milliseconds kLimit{1000};
  Start({.unread_within = kLimit});
  const UniqueFd client = ConnectClient();
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  FillBuffers();
  std::vector<char> buffer(size_t{1} << 20);
  for (const auto begin = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() - begin < 2 * kLimit;) {
    // All data can be in the buffers of the sender until TCP probes the window again.
    pollfd readable = {.fd = client.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&readable, 1, 10'000), 1);
    ASSERT_GT(recv(client.get(), buffer.data(), buffer.size(), 0), 0);
    // Of a trusted client, the screen sees only the free space until the buffer is full again.
    std::this_thread::sleep_for(milliseconds(10));
    FillBuffers();
    ASSERT_EQ(screen_->connections(), 1u);
  }
  EXPECT_EQ(Counted(), 0u);
}

TEST_P(UnreadResponsesTest, AClientWithoutUnreadResponsesIsNotDisconnected) {
  Start({.unread_within = milliseconds(50)});
  const UniqueFd client = ConnectClient();
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 1; }));
  ASSERT_TRUE(SendFrame());
  // The time limit of the first client would end before the time limit of the second client.
  sent_ = 0;
  const UniqueFd second = ConnectClient();
  ASSERT_TRUE(WaitUntil([&] { return handed_over() == 2; }));
  FillBuffers();
  ASSERT_TRUE(WaitUntil([&] { return rejections_.count(Rejection::kResponsesNotRead) > 0; }));
  EXPECT_EQ(Counted(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Sockets, UnreadResponsesTest, ::testing::Values("unix", "tcp", "trusted"),
                         [](const auto& info) { return std::string(info.param); });

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
