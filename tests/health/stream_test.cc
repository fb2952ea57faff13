// Streamed responses of HttpPoint.
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "api/health/event.h"
#include "api/health/http_point.h"
#include "tests/health/health_world.h"

namespace svcmap::api::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

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
