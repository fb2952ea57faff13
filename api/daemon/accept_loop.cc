#include "api/daemon/accept_loop.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>

#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr std::chrono::milliseconds kPauseAfterFailedAccept{100};

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Start(std::vector<int> sockets,
                                                              AcceptAll accept_all) {
  std::unique_ptr<AcceptLoop> loop(new AcceptLoop(std::move(accept_all)));
  loop->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->stop_.ok()) return ErrnoStatus(errno, "create an eventfd");
  loop->thread_ =
      std::thread([self = loop.get(), sockets = std::move(sockets)] { self->Run(sockets); });
  return loop;
}

AcceptLoop::~AcceptLoop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void AcceptLoop::Run(const std::vector<int>& sockets) {
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const int socket : sockets) polled.push_back({socket, POLLIN, 0});
  for (;;) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;  // EINTR
    if (polled[0].revents != 0) return;
    bool accepted = true;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) accepted = accept_all_(polled[i].fd) && accepted;
    }
    if (!accepted) poll(polled.data(), 1, static_cast<int>(kPauseAfterFailedAccept.count()));
  }
}

}  // namespace svcmap::api
