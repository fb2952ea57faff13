// Tests that slow, large and frequent requests do not delay other clients, and that their resource
// usage is limited.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "api/health/connections.h"
#include "tests/health/health_world.h"
#include "tests/support/wait.h"

namespace svcmap::api::test {
namespace {

using std::chrono::milliseconds;

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

}  // namespace
}  // namespace svcmap::api::test
