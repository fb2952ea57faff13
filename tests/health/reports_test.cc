// Byte-exact tests of the health check responses.
#include "api/health/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>

#include "api/health/bind_address.h"
#include "api/process/notify.h"
#include "tests/health/health_world.h"
#include "tests/support/notify_socket.h"

namespace svcmap::api {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using svcmap::testing::NotifySocket;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr seconds kTenOClock(1772359200);  // Ten o'clock: 2026-03-01T10:00:00Z.
const SystemTime kNow{kTenOClock + seconds(5)};

proxy::Health Updated(std::chrono::nanoseconds before_ten, bool healthy) {
  return {.last_synced = SystemTime(kTenOClock - before_ten),
          .live = healthy,
          .node_eligible = true,
          .ready = true};
}

TEST(AnswersTest, S256_ExampleOfHealthz) {
  const Answer answer = HealthzAnswer(Updated(seconds(2), true), kNow);
  EXPECT_EQ(answer.code, 200);
  EXPECT_EQ(
      answer.body,
      R"({"lastUpdated":"2026-03-01T10:00:05Z","currentTime":"2026-03-01T10:00:05Z","nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":"2026-03-01T09:59:58Z","healthy":true},"IPv6":{"lastUpdated":"2026-03-01T09:59:58Z","healthy":true}}})");
}

TEST(AnswersTest, S257_ExampleOfLivez) {
  const Answer answer = LivezAnswer(Updated(seconds(120), false), kNow);
  EXPECT_EQ(answer.code, 503);
  EXPECT_EQ(
      answer.body,
      R"({"lastUpdated":"2026-03-01T09:58:00Z","currentTime":"2026-03-01T10:00:05Z","healthy":false,"status":{"IPv4":{"lastUpdated":"2026-03-01T09:58:00Z","healthy":false},"IPv6":{"lastUpdated":"2026-03-01T09:58:00Z","healthy":false}}})");
}

TEST(AnswersTest, S255_OnFailureTheTimeOfTheLastSyncIsReported) {
  const proxy::Health health = Updated(seconds(60), false);
  for (const Answer& answer : {LivezAnswer(health, kNow), HealthzAnswer(health, kNow)}) {
    EXPECT_THAT(answer.body, HasSubstr(R"({"lastUpdated":"2026-03-01T09:59:00Z",)"));
  }
}

TEST(AnswersTest, S254_TimesHaveAsManyDigitsAsTheyNeed) {
  EXPECT_EQ(Rfc3339(SystemTime(kTenOClock)), "2026-03-01T10:00:00Z");
  EXPECT_EQ(Rfc3339(SystemTime(kTenOClock + milliseconds(250))), "2026-03-01T10:00:00.25Z");
  EXPECT_EQ(Rfc3339(SystemTime(kTenOClock + nanoseconds(1))), "2026-03-01T10:00:00.000000001Z");
}

TEST(BindAddressTest, S295_AddressesWithAndWithoutPort) {
  const struct {
    const char* text;
    const char* read;
  } cases[] = {
      {"0.0.0.0:10256", "0.0.0.0:10256"},     {"[::]:10256", "[::]:10256"},
      {"127.0.0.1", "127.0.0.1:9"},           {"::1", "[::1]:9"},
      {"[fd00::7]", "[fd00::7]:9"},           {"192.0.2.7:1", "192.0.2.7:1"},
      {"[fd00::7]:65535", "[fd00::7]:65535"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<BindAddress> address = BindAddress::Parse(c.text, 9);
    ASSERT_TRUE(address.ok()) << c.text;
    EXPECT_EQ(address->ToString(), c.read);
  }
}

TEST(BindAddressTest, S295_WhatIsNoAddressIsRejected) {
  for (const char* text : {"", ":10256", "localhost:10256", "0.0.0.0:", "0.0.0.0:0",
                           "0.0.0.0:65536", "0.0.0.0:+1", "0.0.0.0:1a", "[::", "[::]1",
                           "[::]:", "::]:1", "[]", "[0.0.0.0]:1", "fe80::1%eth0", "0.0.0.0 :1"}) {
    EXPECT_FALSE(BindAddress::Parse(text, 9).ok()) << text;
  }
}

// Tests of the notifications to systemd. The test's socket simulates systemd.
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
