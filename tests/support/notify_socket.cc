#include "tests/support/notify_socket.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"

namespace svcmap::testing {

absl::StatusOr<std::unique_ptr<NotifySocket>> NotifySocket::Create() {
  absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  std::unique_ptr<NotifySocket> made(new NotifySocket(*std::move(folder)));
  const std::string path = made->folder_.path() + "/socket";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  made->fd_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::bind(made->fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::ErrnoToStatus(errno, "bind " + path);
  }
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  return made;
}

NotifySocket::~NotifySocket() {
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC"}) ::unsetenv(name);
}

void NotifySocket::AskForWatchdog(std::chrono::microseconds limit) {
  ::setenv("WATCHDOG_USEC", std::to_string(limit.count()).c_str(), 1);
}

std::string NotifySocket::ReceiveMessage(std::chrono::milliseconds timeout) {
  pollfd waiting = {fd_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(timeout.count())) <= 0) return "";
  char buffer[512];
  const ssize_t size = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
  return std::string(buffer, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

}  // namespace svcmap::testing
