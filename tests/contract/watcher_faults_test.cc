// Tests of failures of the monitor's socket. After any failure, the monitor must report changes by
// other processes either individually or as lost (S-345). alive() must show whether the monitor
// receives notifications.
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>

#include "tests/contract/scripted_faults.h"
#include "tests/contract/watched_world.h"

namespace svcmap::nft {
namespace {

using namespace std::chrono_literals;
using ::svcmap::testing::Changes;
using ::svcmap::testing::EndpointRow;
using ::svcmap::testing::ServiceRow;
using ::testing::HasSubstr;

constexpr Family kWatchedFamily = Family::kIpv4;
constexpr char kForeign[] = "add rule ip svcmap services accept";

// Returns true if the message is a notification. Responses contain the port id of the requesting
// socket.
bool IsNotification(uint32_t port_id, std::span<const uint8_t> datagram) {
  return reinterpret_cast<const nlmsghdr*>(datagram.data())->nlmsg_pid != port_id;
}

class WatcherFaultsTest : public WatchedWorld {
 protected:
  void SetUp() override {
    WatchedWorld::SetUp();
    if (HasFatalFailure() || !netns_) return;
    Open({.session = {.faults = &own_},
          .monitor = {.check_interval = 20ms, .patience = 100ms, .faults = &watcher_}});
  }
  void TearDown() override { kernel_.reset(); }

  void ExpectLoss(const std::string& text) {
    const std::optional<ForeignChange> change = heard_.Next();
    ASSERT_TRUE(change);
    EXPECT_TRUE(change->lost);
    EXPECT_THAT(change->text, HasSubstr(text));
  }
  void ExpectReport() {
    Nft(kForeign);
    const std::optional<ForeignChange> change = heard_.Next();
    ASSERT_TRUE(change);
    EXPECT_FALSE(change->lost);
    EXPECT_EQ(change->text, "1 rule added to services");
    WaitUntilReported();
  }
  void WaitFor(const std::function<bool()>& condition) {
    ASSERT_TRUE(testing::WaitUntil(condition));
  }
  Transaction Large() {
    Transaction transaction;
    for (uint32_t i = 0; i < 2000; ++i) transaction.Add(ServiceRow(kWatchedFamily, 1000 + i));
    return transaction;
  }
  // Calls `fn` when the next large batch is sent.
  void BeforeLargeBatch(std::function<void()> fn) {
    const std::lock_guard lock(own_.mutex);
    own_.send = [this, fn](uint32_t, std::span<const uint8_t> bytes) {
      if (bytes.size() > 10'000) {
        own_.send = nullptr;
        fn();
      }
      return 0;
    };
  }

  ScriptedFaults own_;
  ScriptedFaults watcher_;
};

TEST_F(WatcherFaultsTest, S345_AForeignCommitDuringALargeBatchIsALoss) {
  BeforeLargeBatch([&] { Nft(kForeign); });
  Commit(Large());
  ExpectLoss("another process committed during a large batch");
  WaitUntilReported();
  ExpectReport();
}

// The reader is slower than the notifications, so the kernel drops notifications.
TEST_F(WatcherFaultsTest, S345_AnOverflowIsALoss) {
  std::mutex busy;
  std::atomic<bool> blocked = false;
  watcher_.Set(&ScriptedFaults::receive, [&](uint32_t, std::span<const uint8_t>) {
    blocked = true;
    const std::lock_guard wait(busy);
    return SocketFaults::Receipt();
  });
  {
    const std::lock_guard lock(busy);
    Nft(kForeign);
    WaitFor([&] { return blocked.load(); });
    ASSERT_OK_AND_ASSIGN(const auto other,
                         netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
    Transaction flood;
    for (uint32_t i = 0; i < 100'000; ++i)
      flood.Add(EndpointRow(2, i, testing::Address(kWatchedFamily, i), 80));
    ASSERT_OK(other->Apply(flood).error);
  }
  std::optional<ForeignChange> change;
  do {
    change = heard_.Next();
    ASSERT_TRUE(change);
  } while (!change->lost);
  WaitUntilReported();
  watcher_.Clear();
  while (!heard_.Texts().empty()) heard_.Next();
  ExpectReport();
}

TEST_F(WatcherFaultsTest, S345_AFailedSocketIsReplaced) {
  std::atomic<int> failures = 0;
  watcher_.Set(&ScriptedFaults::receive, [&](uint32_t port_id, std::span<const uint8_t> datagram) {
    const bool fail = IsNotification(port_id, datagram) && ++failures == 1;
    return SocketFaults::Receipt{.error = fail ? EBADF : 0};
  });
  Nft(kForeign);
  ExpectLoss("notification socket failed");
  WaitUntilReported();
  ExpectReport();
  EXPECT_TRUE(kernel_->WatcherAlive());
}

TEST_F(WatcherFaultsTest, WithoutASocketItIsNotAliveUntilItHasOneAgain) {
  watcher_.Set(&ScriptedFaults::receive, [](uint32_t, std::span<const uint8_t>) {
    return SocketFaults::Receipt{.error = EBADF};
  });
  watcher_.Set(&ScriptedFaults::open, [](int) { return EMFILE; });
  EXPECT_TRUE(kernel_->WatcherAlive());
  Nft(kForeign);
  WaitFor([&] { return !kernel_->WatcherAlive(); });
  watcher_.Clear();
  WaitFor([&] { return kernel_->WatcherAlive(); });
  ExpectLoss("notification socket failed");
  ExpectReport();
}

TEST_F(WatcherFaultsTest, S345_ADeafWatcherStartsOverAndIsNotAliveUntilItHears) {
  watcher_.Set(&ScriptedFaults::receive, [](uint32_t port_id, std::span<const uint8_t> datagram) {
    return SocketFaults::Receipt{.drop = IsNotification(port_id, datagram)};
  });
  Add({ServiceRow(kWatchedFamily, 5)});
  ExpectLoss("no notification received for the latest commits");
  WaitFor([&] { return !kernel_->WatcherAlive(); });
  watcher_.Clear();
  Add({ServiceRow(kWatchedFamily, 6)});
  WaitFor([&] { return kernel_->WatcherAlive(); });
}

TEST_F(WatcherFaultsTest, S345_ARejectedReturnToTheGroupIsALoss) {
  std::atomic<int> rejected = 0;
  watcher_.Set(&ScriptedFaults::set_option, [&](int option) {
    return option == NETLINK_ADD_MEMBERSHIP && ++rejected == 1 ? EPERM : 0;
  });
  Commit(Large());
  ExpectLoss("cannot join the nf_tables notification group");
  WaitUntilReported();
  ExpectReport();
}

TEST_F(WatcherFaultsTest, S345_AGapThatCannotBeMeasuredIsALoss) {
  BeforeLargeBatch([&] {
    own_.receive = [this](uint32_t, std::span<const uint8_t> datagram) {
      const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data());
      const bool generation = (message->nlmsg_type & 0xff) == 15;
      if (generation) own_.receive = nullptr;
      return SocketFaults::Receipt{.error = generation ? EIO : 0};
    };
  });
  Commit(Large());
  ExpectLoss("changes during a large batch are unknown");
  WaitUntilReported();
  ExpectReport();
}

// After a late response, batches use a new socket. The monitor must recognize commits from the new
// socket as svcmapd's own commits.
TEST_F(WatcherFaultsTest, CommitsFromAFreshSocketAreOurs) {
  own_.Set(&ScriptedFaults::receive, [this](uint32_t, std::span<const uint8_t>) {
    own_.receive = nullptr;
    return SocketFaults::Receipt{.error = ENOBUFS};
  });
  EXPECT_EQ(kernel_->Apply(Changes({}, {ServiceRow(kWatchedFamily, 5)})).outcome,
            ApplyOutcome::kUnknown);
  ExpectNothing();
  Add({ServiceRow(kWatchedFamily, 6)});
  ExpectNothing();
}

// Another process commits as fast as possible. The monitor reports each commit, and svcmapd's
// commits continue.
TEST_F(WatcherFaultsTest, S345_AStormIsReportedToItsEnd) {
  constexpr int kForeignCommits = 500;
  ASSERT_OK_AND_ASSIGN(const auto other, netns_->Run([&] { return NetlinkKernel::Open(tables_); }));
  std::jthread storm([&] {
    for (uint32_t i = 0; i < kForeignCommits; ++i) {
      const auto row = EndpointRow(3, i, testing::Address(kWatchedFamily, i), 80);
      EXPECT_OK(other->Apply(Changes({}, {row})).error);
    }
  });
  for (uint32_t i = 0; i < 200; ++i) Add({ServiceRow(kWatchedFamily, 100 + i)});
  storm.join();
  WaitUntilReported();
  size_t reported = 0;
  while (!heard_.Texts().empty()) reported += heard_.Next()->elements.size();
  EXPECT_EQ(reported, kForeignCommits);
}

}  // namespace
}  // namespace svcmap::nft
