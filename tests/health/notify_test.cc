// What systemd hears, from a socket that stands for it.
#include "api/daemon/notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "nft/base/unique_fd.h"
#include "tests/health/health_world.h"

namespace svcmap::api {
namespace {

using std::chrono::microseconds;
using ::testing::MatchesRegex;

class NotifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    const std::string path = folder_ + "/notify";
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    std::filesystem::remove_all(folder_);
  }

  // Nothing if it hears nothing for `timeout`.
  std::string Heard(std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) {
    pollfd waiting = {socket_.get(), POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(timeout.count())) <= 0) return "";
    char buffer[512];
    const ssize_t size = recv(socket_.get(), buffer, sizeof(buffer), 0);
    return std::string(buffer, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  static void AskForWatchdog(const std::string& microseconds) {
    setenv("WATCHDOG_USEC", microseconds.c_str(), 1);
    setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  }

  std::string folder_ = "/tmp/svcmap-notify-XXXXXX";
  const UniqueFd socket_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(NotifyTest, StatesAreSaidWithWhatTheyMean) {
  NotifyReady("revision 7");
  EXPECT_EQ(Heard(), "READY=1\nSTATUS=revision 7");
  NotifyReloading("manifests changed");
  EXPECT_THAT(Heard(),
              MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+\nSTATUS=manifests changed"));
  NotifyStopping("finishing");
  EXPECT_EQ(Heard(), "STOPPING=1\nSTATUS=finishing");
}

TEST_F(NotifyTest, WithoutSystemdNothingIsSaid) {
  unsetenv("NOTIFY_SOCKET");
  NotifyReady("revision 7");
  EXPECT_EQ(Heard(), "");
}

TEST_F(NotifyTest, TheWatchdogIsPingedWellInTimeWhenItIsAskedFor) {
  EXPECT_EQ(Watchdog([] { return true; }).interval(), microseconds(0));
  AskForWatchdog("20000000");
  EXPECT_EQ(Watchdog([] { return true; }).interval(), std::chrono::seconds(5));
  setenv("WATCHDOG_PID", "1", 1);  // Somebody else is meant.
  EXPECT_EQ(Watchdog([] { return true; }).interval(), microseconds(0));
}

TEST_F(NotifyTest, TheWatchdogHearsNothingWhileNothingMoves) {
  bool alive = true;
  Watchdog watchdog([&] { return alive; });
  watchdog.Ping();
  EXPECT_EQ(Heard(), "WATCHDOG=1");
  alive = false;
  watchdog.Ping();
  EXPECT_EQ(Heard(), "");
  alive = true;
  watchdog.Ping();
  EXPECT_EQ(Heard(), "WATCHDOG=1");
}

TEST_F(NotifyTest, TheHealthServersThreadPings) {
  AskForWatchdog("20000");
  std::atomic<bool> alive = true;
  Watchdog watchdog([&] { return alive.load(); });
  const auto server =
      HealthServer::Start({.health = test::AllIsWell, .tick = watchdog.interval(), .on_tick = [&] {
                             watchdog.Ping();
                           }});
  ASSERT_TRUE(server.ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Heard(std::chrono::seconds(10)), "WATCHDOG=1");
  alive = false;
  while (!Heard(std::chrono::milliseconds(200)).empty()) continue;  // It falls silent.
}

}  // namespace
}  // namespace svcmap::api
