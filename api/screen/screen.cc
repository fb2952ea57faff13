#include "api/screen/screen.h"

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/screen/screen_loop.h"

namespace svcmap::api {

using std::chrono::milliseconds;

Screen::Screen(ScreenOptions options, Rejections& rejections)
    : options_(std::move(options)), rejections_(rejections), limits_(options_.connections) {}

Screen::~Screen() {
  closed_ = true;
  greeter_.reset();
  relay_.reset();
}

absl::StatusOr<std::unique_ptr<Screen>> Screen::Start(ScreenOptions options,
                                                      Rejections& rejections) {
  std::unique_ptr<Screen> screen(new Screen(std::move(options), rejections));
  for (std::unique_ptr<ScreenLoop>* loop : {&screen->relay_, &screen->greeter_}) {
    *loop = std::make_unique<ScreenLoop>(*screen);
    if (absl::Status status = (*loop)->Start(); !status.ok()) return status;
  }
  return screen;
}

std::string Screen::LimitText(Rejection reason) const {
  switch (reason) {
    case Rejection::kTotalLimit:
      return absl::StrCat("limit=", options_.connections.max_connections);
    case Rejection::kPeerLimit:
      return absl::StrCat("limit=", options_.connections.max_connections_per_peer);
    case Rejection::kRateLimit:
      return absl::StrCat("limit=", options_.connections.per_second, "/s");
    case Rejection::kRoleRateLimit:
      return absl::StrCat("limit=", options_.connections.role_per_second, "/s");
    default:
      return "";
  }
}

void Screen::Add(UniqueFd fd, const Peer& peer) { AddConnection(std::move(fd), peer, false); }

void Screen::AddTls(UniqueFd fd, const std::string& address) {
  AddConnection(std::move(fd), {.key = address, .name = address}, true);
}

void Screen::AddConnection(UniqueFd fd, const Peer& peer, bool tls) {
  if (closed_) return;
  const auto now = ScreenClock::now();
  ConnectionLimits::Handle handle;
  const std::optional<Role> role = tls ? std::nullopt : std::optional(peer.role);
  if (const auto rejected = limits_.Admit(peer.key, role, fd.get(), now, handle)) {
    rejections_.Add(*rejected, peer.key, LimitText(*rejected));
    return;
  }
  auto connection = std::make_unique<ScreenedConnection>(std::move(fd), peer, handle,
                                                         FrameLimitsOf(peer.role), now);
  connection->handshake = tls;
  connection->deadline = now + options_.greet_within;
  greeter_->Add(std::move(connection));
}

void Screen::Drain(milliseconds grace) {
  closed_ = true;
  const auto deadline = ScreenClock::now() + grace;
  while (limits_.connections() > 0 && ScreenClock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  limits_.ShutDownAll();
}

}  // namespace svcmap::api
