// Tests that slow, large and frequent requests do not delay other clients, and that their resource
// usage is limited.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/health/connections.h"
#include "api/health/event.h"
#include "api/health/http_point.h"
#include "tests/health/health_world.h"
#include "tests/support/wait.h"

namespace svcmap::api::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Time = RequestRate::Clock::time_point;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRequest[] = "GET /livez HTTP/1.1\r\nHost: node\r\n\r\n";

// Returns pipelined requests of at least `size` bytes.
std::string Requests(size_t size) {
  std::string requests;
  while (requests.size() < size) requests += kRequest;
  return requests;
}

class FloodTest : public HealthServerTest {
 protected:
  RawConnection Connect() {
    auto connection = RawConnection::Open(netns(), kV4, kHealthPort);
    EXPECT_OK(connection);
    return *std::move(connection);
  }
  std::vector<RawConnection> ConnectMany(size_t count) {
    std::vector<RawConnection> connections;
    while (connections.size() < count) connections.push_back(Connect());
    return connections;
  }
  // Sends more requests than the server answers at once, and reads the first `answers` responses.
  void SendBurst(RawConnection& connection, int answers = kRequestBurst) {
    ASSERT_OK(connection.Send(Requests(4000)));
    for (int i = 0; i < answers; ++i) ASSERT_OK(connection.Read());
  }
  void ExpectAnswered() {
    const auto answer = Ask("/livez");
    ASSERT_OK(answer);
    EXPECT_EQ(answer->code, 200);
  }
};

TEST_F(FloodTest, AClientThatSendsByteByByteIsCutOffAndDelaysNoOtherClient) {
  ASSERT_OK(Start({.patience = milliseconds(500)}));
  std::vector<RawConnection> slow = ConnectMany(100);
  size_t ended = 0;
  for (size_t i = 0; ended < slow.size() && i < 1000; ++i) {
    ended = 0;
    for (RawConnection& connection : slow) {
      // Send one byte at a time, so that a request never completes.
      const char byte = kRequest[i % 20];
      ended += connection.Send({&byte, 1}).ok() ? 0 : 1;
    }
    ExpectAnswered();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(ended, slow.size());
}

TEST_F(FloodTest, WhoAsksNowAndThenIsNotCutOff) {
  ASSERT_OK(Start({.patience = milliseconds(1000)}));
  RawConnection silent = Connect();
  RawConnection talking = Connect();
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) {
    ASSERT_OK(talking.Send(kRequest));
    ASSERT_OK(talking.Read());
    ended = silent.WaitForEnd(milliseconds(50)).ok();
  }
  EXPECT_TRUE(ended);
}

TEST_F(FloodTest, OfTooManyConnectionsTheOnesSilentForLongestAreClosed) {
  ASSERT_OK(Start({.max_connections = 64}));
  RawConnection talking = Connect();
  std::vector<RawConnection> silent;
  for (int i = 0; i < 30; ++i) {
    for (RawConnection& connection : ConnectMany(10)) silent.push_back(std::move(connection));
    ASSERT_OK(talking.Send(kRequest));
    ASSERT_OK(talking.Read());
  }
  ASSERT_EQ(silent.size(), 300u);
  for (size_t i = 0; i < 300 - 64; ++i) EXPECT_OK(silent[i].WaitForEnd()) << i;
  ExpectAnswered();
  EXPECT_FALSE(silent.back().WaitForEnd(milliseconds(0)).ok());
}

// The client's ends of the connections are descriptors of this process too, and are not counted.
TEST_F(FloodTest, DescriptorsOfClosedConnectionsAreReleasedImmediately) {
  constexpr size_t kLimit = 64;
  // The server accepts at most this number of connections in a row.
  constexpr size_t kAcceptsInARow = 64;
  ASSERT_OK(Start({.max_connections = kLimit}));
  ExpectAnswered();
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  };
  const size_t before = descriptors();
  std::vector<RawConnection> connections;
  size_t most = 0;
  for (int i = 0; i < 500; ++i) {
    for (RawConnection& connection : ConnectMany(1)) connections.push_back(std::move(connection));
    most = std::max(most, descriptors() - before - connections.size());
  }
  ExpectAnswered();
  EXPECT_LE(most, kLimit + kAcceptsInARow);
}

TEST_F(FloodTest, HeadersAndBodiesWithoutEndAreRejected) {
  ASSERT_OK(Start());
  const std::string much(size_t{64} << 10, 'x');
  const struct {
    const char* name;
    std::string request;
    int code;
  } cases[] = {
      {"request line", absl::StrCat("GET /", much), 400},
      {"one header", absl::StrCat("GET / HTTP/1.1\r\nName: ", much), 400},
      {"announced body", "POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n", 413},
      {"chunked body",
       absl::StrCat("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n", much), 413},
      {"no HTTP", "EHLO node.example\r\n\r\n", 400},
  };
  for (const auto& c : cases) {
    RawConnection connection = Connect();
    ASSERT_OK(connection.Send(c.request));
    // The response may be lost, because unread data makes the kernel reset the connection, possibly
    // before the response arrives.
    const auto answer = connection.Read();
    EXPECT_EQ(answer.ok() ? answer->code : c.code, c.code) << c.name;
    connection.Send(much).IgnoreError();
    EXPECT_OK(connection.WaitForEnd()) << c.name;
    ExpectAnswered();
  }
}

TEST_F(FloodTest, ASmallBodyIsTaken) {
  ASSERT_OK(Start());
  RawConnection connection = Connect();
  ASSERT_OK(connection.Send("POST /livez HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, connection.Read());
  EXPECT_EQ(answer.code, 200);
}

// The server stops reading from a client that sends requests faster than the limit. Further
// requests stay in the client's send buffer. The responses are too small to fill the socket buffers
// soon; MetricsServerTest tests a client that does not read large responses.
TEST_F(FloodTest, WhoNeverReadsAnswersCannotMakeUsKeepHisRequests) {
  ASSERT_OK(Start({.patience = milliseconds(1000)}));
  RawConnection connection = Connect();
  const std::string requests = Requests(size_t{1} << 20);
  int sent = 0;  // Number of sent requests of 1 MiB each.
  while (sent < 64 && connection.Send(requests).ok()) ++sent;
  EXPECT_LT(sent, 64) << "socket buffers hold a few MiB";
  ExpectAnswered();
}

// The exact number of received responses, and the time from the first request to the last response.
struct Flood {
  size_t responses = 0;
  std::chrono::duration<double> took = {};
};

// Sends pipelined requests on all connections until `count` responses are received.
Flood PipelineUntil(const std::vector<RawConnection>& connections, size_t count) {
  constexpr std::string_view kStart = "HTTP/1.1 200";
  const std::string requests = Requests(size_t{64} << 10);
  std::vector<size_t> sent(connections.size());  // Position of the next byte in `requests`.
  std::vector<std::string> received(connections.size());
  char buffer[64 << 10];
  Flood flood;
  const auto begin = std::chrono::steady_clock::now();
  while (flood.responses < count && flood.took < svcmap::testing::kHangLimit) {
    for (size_t i = 0; i < connections.size(); ++i) {
      const ssize_t more = send(connections[i].fd(), requests.data() + sent[i],
                                requests.size() - sent[i], MSG_NOSIGNAL | MSG_DONTWAIT);
      if (more > 0) sent[i] = (sent[i] + static_cast<size_t>(more)) % requests.size();
      const ssize_t got = recv(connections[i].fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got <= 0) continue;
      received[i].append(buffer, static_cast<size_t>(got));
      for (size_t at = 0; (at = received[i].find(kStart)) != std::string::npos;) {
        ++flood.responses;
        received[i].erase(0, at + kStart.size());
      }
    }
    std::this_thread::sleep_for(milliseconds(1));
    flood.took = std::chrono::steady_clock::now() - begin;
  }
  return flood;
}

// RequestRateTest checks the limit per connection and the order of the responses.
TEST_F(FloodTest, AllConnectionsTogetherReceiveALimitedNumberOfResponsesPerSecond) {
  constexpr size_t kConnections = 900;
  constexpr auto kFree = static_cast<size_t>(kConnections + kMaxResponsesAtOnce);
  constexpr auto kCount = static_cast<size_t>(kFree + kMaxResponsesPerSecond);
  ASSERT_OK(Start());
  const std::vector<RawConnection> connections = ConnectMany(kConnections);
  const auto [responses, took] = PipelineUntil(connections, kCount);
  EXPECT_GE(responses, kCount) << "the flood was not processed";
  EXPECT_LE(static_cast<double>(responses), kFree + took.count() * kMaxResponsesPerSecond);
  ExpectAnswered();
}

TEST_F(FloodTest, DelayedRequestsOfARemovedServiceAreDiscarded) {
  ASSERT_OK(Start());
  server().Update({{"shop/web", CheckAt(30500)}});
  ASSERT_TRUE(SoonOpen(30500));
  auto connection = RawConnection::Open(netns(), kV4, 30500);
  ASSERT_OK(connection);
  ASSERT_NO_FATAL_FAILURE(SendBurst(*connection));
  server().Update({{"shop/web", std::nullopt}});
  EXPECT_OK(connection->WaitForEnd());
  ExpectAnswered();
}

TEST_F(FloodTest, ConnectionsWithDelayedRequestsAreClosedImmediately) {
  ASSERT_OK(Start({.max_connections = 8}));
  std::vector<RawConnection> flood = ConnectMany(8);
  for (RawConnection& connection : flood) ASSERT_NO_FATAL_FAILURE(SendBurst(connection));
  // A connection in `flood` can send a request between two new connections and is then not the
  // oldest connection. Therefore the test opens more than 8 connections.
  std::vector<RawConnection> others;
  const auto all_closed = [&flood] {
    return std::all_of(flood.begin(), flood.end(), [](RawConnection& connection) {
      return connection.WaitForEnd(milliseconds(0)).ok();
    });
  };
  for (int round = 0; round < 100 && !all_closed(); ++round) {
    for (RawConnection& connection : ConnectMany(8)) others.push_back(std::move(connection));
  }
  EXPECT_TRUE(all_closed());
  ExpectAnswered();
}

TEST_F(FloodTest, AClientThatClosesAConnectionWithADelayedRequestIsHarmless) {
  ASSERT_OK(Start());
  for (int round = 0; round < 20; ++round) {
    RawConnection connection = Connect();
    ASSERT_NO_FATAL_FAILURE(SendBurst(connection));
    const linger reset = {.l_onoff = 1, .l_linger = 0};
    if (round % 2 == 0) {
      setsockopt(connection.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
  }
  // The delayed request of a later connection is answered after the others would have been.
  RawConnection connection = Connect();
  ASSERT_NO_FATAL_FAILURE(SendBurst(connection, kRequestBurst + 1));
  ExpectAnswered();
}

TEST_F(FloodTest, AStormOfConnectionsDoesNotStopAnswers) {
  ASSERT_OK(Start({.max_connections = 128}));
  server().Update({{"shop/web", CheckAt(30500)}});
  ASSERT_TRUE(SoonOpen(30500));
  std::atomic<bool> stop = false;
  std::atomic<size_t> made = 0;
  std::vector<std::thread> storm;
  for (int i = 0; i < 2; ++i) {
    storm.emplace_back([&] {
      ASSERT_OK(netns().Enter());
      sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(kHealthPort)};
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      while (!stop) {
        // On loopback, a connection is established immediately, or never if the accept queue is
        // full.
        const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to));
        ++made;
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_OK(AskService(30500));
  const size_t enough = made + 1000;
  EXPECT_TRUE(testing::WaitUntil([&] { return made > enough; })) << made;
  stop = true;
  for (std::thread& thread : storm) thread.join();
  ExpectAnswered();
}

TEST_F(FloodTest, WithoutDescriptorsItWaitsAndGoesOn) {
  ASSERT_OK(Start());
  const UniqueFd client =
      netns().Run([] { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); });
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit none = limit;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(kHealthPort)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_EQ(send(client.get(), kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof(kRequest) - 1));
  timespec cpu_before = {}, cpu_after = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
  std::this_thread::sleep_for(milliseconds(300));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
  EXPECT_LT((cpu_after.tv_sec - cpu_before.tv_sec) * 1000 +
                (cpu_after.tv_nsec - cpu_before.tv_nsec) / 1000000,
            100)
      << "it spins";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  char buffer[512];
  EXPECT_GT(recv(client.get(), buffer, sizeof(buffer), 0), 0);
  ExpectAnswered();
}

// Tests of the limit per connection and of the order of delayed responses, with a simulated clock.

TEST(RequestRateTest, PermitsABurstAndThenOneResponsePerInterval) {
  const Time start{};
  RequestRate rate(start);
  EXPECT_FALSE(rate.has_response());
  for (int i = 0; i < kRequestBurst; ++i) {
    EXPECT_LE(rate.permitted(), start) << i;
    rate.CountResponse(start);
  }
  EXPECT_TRUE(rate.has_response());
  EXPECT_EQ(rate.permitted(), start + kRequestInterval);
  rate.CountResponse(rate.permitted());
  EXPECT_EQ(rate.permitted(), start + 2 * kRequestInterval);
}

TEST(RequestRateTest, ABurstIsPermittedAgainAfterSilence) {
  RequestRate rate(Time{});
  for (int i = 0; i < kRequestBurst; ++i) rate.CountResponse(Time{});
  const Time later = Time{} + kRequestBurst * kRequestInterval;
  for (int i = 0; i < kRequestBurst; ++i) {
    EXPECT_LE(rate.permitted(), later) << i;
    rate.CountResponse(later);
  }
  EXPECT_GT(rate.permitted(), later);
}

// 900 connections always have a request. The limit for all connections together permits the rate of
// responses. A client with a kept connection sends one request per second.
TEST(RequestRateTest, AConnectionWithFewRequestsIsBeforeConnectionsWithManyRequests) {
  const nanoseconds per_response(static_cast<int64_t>(1e9 / kMaxResponsesPerSecond));
  Time now{};
  std::vector<RequestRate> flood(900, RequestRate(now));
  RequestRate calm(now);
  calm.CountResponse(now);
  std::set<std::pair<Time, size_t>> delayed;
  for (size_t i = 0; i < flood.size(); ++i) delayed.insert({flood[i].permitted(), i});
  for (int second = 0; second < 10; ++second) {
    for (int i = 0; i < kMaxResponsesPerSecond; ++i) {
      now += per_response;
      const auto [permitted, next] = *delayed.begin();
      if (permitted > now) continue;
      delayed.erase(delayed.begin());
      flood[next].CountResponse(now);
      delayed.insert({flood[next].permitted(), next});
    }
    EXPECT_LE(calm.permitted(), now);
    EXPECT_LT(calm.permitted(), delayed.begin()->first) << "after " << second << " s";
    calm.CountResponse(now);
  }
}

// Streamed responses of HttpPoint.

// Serves a stream at /events. Each wake-up publishes a part.
class StreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    svcmap::testing::MakePrivateNetNs(netns_);
    StartServer(/*max=*/4, /*patience=*/30s);
  }
  void TearDown() override { StopServer(); }

  void StartServer(size_t max, std::chrono::milliseconds patience) {
    StopServer();
    thread_.emplace([this] {
      const std::lock_guard lock(mutex_);
      point_->Publish(part_);
      ++published_;
    });
    connections_.emplace(thread_->base(), max, patience);
    point_.emplace(thread_->base(), *connections_, [](const HttpPoint::Request& request) {
      Answer answer;
      answer.is_stream = request.path == "/events";
      if (!answer.is_stream) answer.body = "page";
      return answer;
    });
    ASSERT_OK(netns_->Run([&] {
      return point_->Open(*BindAddress::Parse(std::string(kV4) + ":10256", 0), Stack::kOne);
    }));
    thread_->Start();
  }
  void StopServer() {
    if (thread_) thread_->Stop();
    point_.reset();
    connections_.reset();
    thread_.reset();
  }

  // Returns when the part is published.
  void Publish(std::string part) {
    int before = 0;
    {
      const std::lock_guard lock(mutex_);
      before = published_;
      part_ = std::make_shared<const std::string>(std::move(part));
    }
    thread_->Wake();
    ASSERT_TRUE(svcmap::testing::WaitUntil([&] {
      const std::lock_guard lock(mutex_);
      return published_ > before;
    }));
  }

  RawConnection Connect(const std::string& request) {
    absl::StatusOr<RawConnection> connection = RawConnection::Open(*netns_, kV4, kHealthPort);
    EXPECT_OK(connection);
    EXPECT_OK(connection->Send(request));
    return *std::move(connection);
  }

  // Reads until the received bytes contain `text`. Returns the received bytes.
  static std::string ReadUntil(const RawConnection& connection, const std::string& text) {
    std::string received;
    const bool found = svcmap::testing::WaitUntil([&] {
      char buffer[65536];
      for (;;) {
        const ssize_t size = recv(connection.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
        if (size <= 0) return false;
        const size_t old_size = received.size();
        received.append(buffer, static_cast<size_t>(size));
        if (received.find(text, old_size - std::min(old_size, text.size())) != text.npos)
          return true;
      }
    });
    EXPECT_TRUE(found) << text << " is not in " << received.substr(0, 1000);
    return received;
  }

  std::optional<svcmap::testing::NetNs> netns_;
  std::mutex mutex_;
  std::shared_ptr<const std::string> part_;  // Guarded by mutex_.
  int published_ = 0;                        // Guarded by mutex_.
  std::optional<EventThread> thread_;
  std::optional<Connections> connections_;
  std::optional<HttpPoint> point_;
};

constexpr char kGet[] = "GET /events HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(StreamTest, EachStreamReceivesTheLatestPartAndThenTheNewParts) {
  const RawConnection early = Connect(kGet);
  EXPECT_THAT(ReadUntil(early, "\r\n\r\n"), HasSubstr("HTTP/1.1 200 OK\r\n"));
  Publish("first");
  ReadUntil(early, "first\r\n");
  const RawConnection late = Connect(kGet);
  ReadUntil(late, "5\r\nfirst\r\n");
  Publish("second");
  ReadUntil(early, "6\r\nsecond\r\n");
  ReadUntil(late, "6\r\nsecond\r\n");
}

TEST_F(StreamTest, AClosedStreamDoesNotAffectOthers) {
  const RawConnection stays = Connect(kGet);
  Publish("one");
  ReadUntil(stays, "one");
  {
    const RawConnection leaves = Connect(kGet);
    ReadUntil(leaves, "one");
  }
  Publish("two");
  Publish("three");
  ReadUntil(stays, "three");
  const RawConnection head = Connect("HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(ReadUntil(head, "\r\n\r\n"), HasSubstr("Content-Length: 0"));
}

TEST_F(StreamTest, ASlowClientSkipsParts) {
  const RawConnection slow = Connect(kGet);
  ReadUntil(slow, "\r\n\r\n");
  const std::string filler(32 << 20, 'x');  // Exceeds the buffers of the kernel.
  Publish(filler + "first");
  for (int part = 0; part < 20; ++part) Publish("skipped");
  EXPECT_THAT(ReadUntil(slow, "first\r\n"), Not(HasSubstr("skipped")));
  Publish("last");
  EXPECT_THAT(ReadUntil(slow, "last\r\n"), Not(HasSubstr("skipped")));
}

TEST_F(StreamTest, AStreamWithoutPartsIsDisconnected) {
  StartServer(/*max=*/4, /*patience=*/200ms);
  RawConnection stream = Connect(kGet);
  EXPECT_OK(stream.WaitForEnd());
}

TEST_F(StreamTest, NewClientsReplaceTheClientThatWasSilentForTheLongestTime) {
  StartServer(/*max=*/2, /*patience=*/30s);
  const RawConnection stream = Connect(kGet);
  ReadUntil(stream, "\r\n\r\n");
  RawConnection silent = Connect("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ReadUntil(silent, "page");
  Publish("part");
  ReadUntil(stream, "part");
  const RawConnection next = Connect(kGet);
  ReadUntil(next, "part");
  EXPECT_OK(silent.WaitForEnd());
  Publish("later");
  ReadUntil(stream, "later");
}

}  // namespace
}  // namespace svcmap::api::test
