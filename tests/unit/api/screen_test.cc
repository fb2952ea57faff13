// Tests of the connections that a Screen closes, with socket pairs instead of clients and gRPC.
#include "api/screen/screen.h"

#include <gmock/gmock.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/hostile/frames.h"

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

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
  UniqueFd Connect(const std::string& bytes, Role role = Role::kRead) {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    UniqueFd client(fds[0]);
    EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    screen_->Add(UniqueFd(fds[1]), {.key = "peer", .name = "peer", .role = role});
    return client;
  }

  template <typename Condition>
  static bool Soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  size_t handed_over() {
    const std::lock_guard lock(mutex_);
    return handed_over_.size();
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

TEST_F(ScreenTest, OffencesAreCountedEvenIfTheClientHasClosedTheConnection) {
  Start();
  {
    // While the test has the mutex, the connection is not handed over, and the flood is not read.
    const std::lock_guard lock(mutex_);
    const UniqueFd client = Connect(hostile::Greeting());
    ASSERT_TRUE(Soon([&] {
      int unread = -1;
      return ioctl(client.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
    }));
    std::string flood;
    for (int i = 0; i < 2000; ++i) flood += hostile::Frame(hostile::kPing, 0, 0, "12345678");
    ASSERT_EQ(send(client.get(), flood.data(), flood.size(), 0),
              static_cast<ssize_t>(flood.size()));
  }
  ASSERT_TRUE(Soon([&] { return screen_->connections() == 0; }));
  EXPECT_EQ(rejections_.count(Rejection::kTooManyFrames), 1u);
  EXPECT_EQ(Counted(), 1u);
}

TEST_F(ScreenTest, ConnectionsThatMakeRoomAreCountedOnce) {
  Start({.connections = {.max_connections = 2}});
  const UniqueFd silent = Connect("");
  const UniqueFd reader = Connect(hostile::Greeting());
  ASSERT_TRUE(Soon([&] { return handed_over() == 1; }));
  const UniqueFd first = Connect(hostile::Greeting(), Role::kWrite);
  ASSERT_TRUE(Soon([&] { return handed_over() == 2; }));
  ASSERT_TRUE(Soon([&] { return rejections_.count(Rejection::kMadeRoom) == 1; }));
  const UniqueFd second = Connect(hostile::Greeting(), Role::kWrite);
  ASSERT_TRUE(Soon([&] { return handed_over() == 3; }));
  {
    // As gRPC does when a client closes its end.
    const std::lock_guard lock(mutex_);
    handed_over_[0] = UniqueFd();
  }
  ASSERT_TRUE(Soon([&] { return rejections_.count(Rejection::kMadeRoom) == 2; }));
  EXPECT_EQ(Counted(), 2u);
}

TEST_F(ScreenTest, ConnectionsThatTheClientOrGrpcClosesAreNotCounted) {
  Start();
  UniqueFd client = Connect(hostile::Greeting());
  ASSERT_TRUE(Soon([&] { return handed_over() == 1; }));
  client = UniqueFd();
  const UniqueFd other = Connect(hostile::Greeting());
  ASSERT_TRUE(Soon([&] { return handed_over() == 2; }));
  {
    const std::lock_guard lock(mutex_);
    handed_over_.clear();
  }
  ASSERT_TRUE(Soon([&] { return screen_->connections() == 0; }));
  EXPECT_EQ(Counted(), 0u);
}

}  // namespace
}  // namespace svcmap::api
