#include "api/grpc/workers.h"
#include "tests/support/wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace svcmap::api {
namespace {

using testing::WaitUntil;

// Calls that keep their slots until the test releases them.
class OpenCalls {
 public:
  std::function<void(Workers::Slot)> Call() {
    return [this](Workers::Slot slot) {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::move(slot));
    };
  }
  void ReleaseOne() {
    const Workers::Slot slot = Take();  // Destroyed after the mutex is unlocked.
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return slots_.size();
  }
  // Waits until this number of calls is open.
  bool Await(size_t expected) {
    return WaitUntil([&] { return count() == expected; });
  }

 private:
  Workers::Slot Take() {
    const std::lock_guard lock(mutex_);
    Workers::Slot slot = std::move(slots_.back());
    slots_.pop_back();
    return slot;
  }

  std::mutex mutex_;
  std::vector<Workers::Slot> slots_;
};

TEST(WorkersTest, OpenCallsOfAPeerDoNotDelayAnotherPeer) {
  Workers workers(4, 2, 1);
  OpenCalls hostile;
  OpenCalls legitimate;
  for (int i = 0; i < 10; ++i) workers.Start("hostile", hostile.Call());
  ASSERT_TRUE(hostile.Await(2));
  workers.Start("legitimate", legitimate.Call());
  EXPECT_TRUE(legitimate.Await(1));
  EXPECT_EQ(hostile.count(), 2u);
  legitimate.ReleaseOne();
  for (int i = 0; i < 8; ++i) {
    hostile.ReleaseOne();
    EXPECT_TRUE(hostile.Await(2));
  }
  hostile.ReleaseOne();
  hostile.ReleaseOne();
}

TEST(WorkersTest, BlockedTasksOfAPeerDoNotDelayAnotherPeer) {
  std::promise<void> release;
  std::promise<void> ran;
  Workers workers(4, 2, 4);
  const auto blocked = [released = release.get_future().share()](const auto&) { released.wait(); };
  for (int i = 0; i < 10; ++i) workers.Start("hostile", blocked);
  workers.Start("legitimate", [&](const auto&) { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(testing::kHangLimit), std::future_status::ready);
  release.set_value();
}

TEST(WorkersTest, PeersReceiveSlotsInTurn) {
  OpenCalls first;
  std::mutex mutex;
  std::string order;
  {
    Workers workers(1, 1, 1);
    workers.Start("z", first.Call());
    ASSERT_TRUE(first.Await(1));
    for (const std::string peer : {"a", "a", "a", "b", "c", "b"}) {
      workers.Start(peer, [&, peer](const auto&) {
        const std::lock_guard lock(mutex);
        order += peer;
      });
    }
    first.ReleaseOne();
  }
  EXPECT_EQ(order, "abcaba");
}

TEST(WorkersTest, CancelledCallDoesNotStart) {
  OpenCalls first;
  Workers workers(1, 1, 1);
  const uint64_t started = workers.Start("a", first.Call());
  ASSERT_TRUE(first.Await(1));
  const uint64_t waiting = workers.Start("b", [](const auto&) { FAIL(); });
  EXPECT_FALSE(workers.Cancel("a", waiting));
  EXPECT_TRUE(workers.Cancel("b", waiting));
  EXPECT_FALSE(workers.Cancel("b", waiting));
  EXPECT_FALSE(workers.Cancel("a", started));
  first.ReleaseOne();
}

TEST(WorkersTest, ManyCallsOfManyPeersAllEnd) {
  std::atomic<int> ended = 0;
  {
    Workers workers(8, 2, 4);
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&, c] {
        for (int i = 0; i < 1000; ++i) {
          const std::string peer = std::to_string(c * 3 + i % 3);
          const uint64_t ticket = workers.Start(
              peer, [&](const Workers::Slot& slot) { workers.Continue([&, slot] { ++ended; }); });
          if (i % 2 == 0 && workers.Cancel(peer, ticket)) ++ended;
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_TRUE(WaitUntil([&] { return ended == 4000; })) << ended;
  }
}

}  // namespace
}  // namespace svcmap::api
