// Tests of the notifications to systemd. The test's socket simulates systemd.
#include "api/process/notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>

#include "tests/health/health_world.h"
#include "tests/support/notify_socket.h"

namespace svcmap::api {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using svcmap::testing::NotifySocket;
using ::testing::MatchesRegex;

class NotifyTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(systemd_, NotifySocket::Create()); }

  std::unique_ptr<NotifySocket> systemd_;
};

TEST_F(NotifyTest, StatesAreReportedWithWhatTheyMean) {
  NotifyReady("revision 7");
  EXPECT_EQ(systemd_->ReceiveMessage(), "READY=1\nSTATUS=revision 7");
  NotifyReloading("manifests changed");
  EXPECT_THAT(systemd_->ReceiveMessage(),
              MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+\nSTATUS=manifests changed"));
  NotifyStopping("finishing");
  EXPECT_EQ(systemd_->ReceiveMessage(), "STOPPING=1\nSTATUS=finishing");
}

TEST_F(NotifyTest, WithoutSystemdNothingIsReported) {
  unsetenv("NOTIFY_SOCKET");
  NotifyReady("revision 7");
  EXPECT_EQ(systemd_->ReceiveMessage(), "");
}

TEST_F(NotifyTest, TheWatchdogIsPingedWellInTimeWhenItIsAskedFor) {
  EXPECT_EQ(Watchdog([] { return true; }).interval(), microseconds(0));
  NotifySocket::AskForWatchdog(seconds(20));
  EXPECT_EQ(Watchdog([] { return true; }).interval(), seconds(5));
}

TEST_F(NotifyTest, TheWatchdogHearsNothingWhileNothingMoves) {
  bool alive = true;
  Watchdog watchdog([&] { return alive; });
  watchdog.Ping();
  EXPECT_EQ(systemd_->ReceiveMessage(), "WATCHDOG=1");
  alive = false;
  watchdog.Ping();
  EXPECT_EQ(systemd_->ReceiveMessage(), "");
  alive = true;
  watchdog.Ping();
  EXPECT_EQ(systemd_->ReceiveMessage(), "WATCHDOG=1");
}

TEST_F(NotifyTest, TheHealthServersThreadPings) {
  NotifySocket::AskForWatchdog(milliseconds(20));
  std::atomic<bool> alive = true;
  Watchdog watchdog([&] { return alive.load(); });
  const auto server =
      HealthServer::Start({.health = test::AllIsWell, .tick = watchdog.interval(), .on_tick = [&] {
                             watchdog.Ping();
                           }});
  ASSERT_OK(server);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(systemd_->ReceiveMessage(seconds(10)), "WATCHDOG=1");
  alive = false;
  // Wait until svcmapd sends no more watchdog messages.
  while (!systemd_->ReceiveMessage(milliseconds(200)).empty()) continue;
}

}  // namespace
}  // namespace svcmap::api
