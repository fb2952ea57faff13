#include "api/localhost/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cerrno>

#include "api/health/bind_address.h"
#include "api/log/log_value.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Edge-triggered, so that the kernel also reports errors of a socket that is neither read nor
// written at the moment.
constexpr short kEvents = EV_READ | EV_WRITE | EV_PERSIST | EV_ET;

constexpr std::chrono::microseconds kNow{0};

// Detects endpoints that no longer answer, for example because their node has crashed.
constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 15;

int TakeError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

void LogFailedConnect(const proxy::EndpointAddress& endpoint, int error) {
  spdlog::debug("cannot connect to endpoint endpoint={} error={}",
                endpoint.ip.WithPort(endpoint.port), LogValue(ErrnoStatus(error, "connect")));
}

constexpr unsigned kSpliceFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;

Transfer::Result ResultOfErrno() {
  if (errno == EINTR) return Transfer::Result::kMore;
  return errno == EAGAIN ? Transfer::Result::kWaiting : Transfer::Result::kFailed;
}

}  // namespace

void ResetWhenClosed(const UniqueFd& socket) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

ForwardedConnection::ForwardedConnection(event_base* base, UniqueFd client,
                                         std::shared_ptr<proxy::EndpointPicker> picker,
                                         std::chrono::milliseconds connect_timeout,
                                         std::function<uint64_t()> random,
                                         std::function<void()> on_end)
    : base_(base),
      client_(std::move(client)),
      picker_(std::move(picker)),
      connect_timeout_(connect_timeout),
      random_(std::move(random)),
      on_end_(std::move(on_end)),
      client_ready_(base, client_.get(), kEvents, [this] { OnClient(); }),
      timer_(base, [this] { OnTimer(); }) {}

void ForwardedConnection::Start() {
  SetOption(client_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  client_ready_.Wait();
  TryNextEndpoint();
}

// Must not be called by the event of an endpoint, because it replaces this event.
void ForwardedConnection::TryNextEndpoint() {
  while (tried_.size() < kMaxConnectAttempts) {
    const std::optional<proxy::EndpointAddress> endpoint =
        picker_->Pick(tried_, random_(), std::chrono::steady_clock::now());
    if (!endpoint) break;
    tried_.push_back(*endpoint);
    if (Connect(*endpoint)) return;
  }
  Reset();
}

// Returns false if the connection fails immediately, for example without a route.
bool ForwardedConnection::Connect(const proxy::EndpointAddress& endpoint) {
  endpoint_ready_.reset();
  endpoint_ = UniqueFd();
  const SocketAddress to(BindAddress{endpoint.ip, endpoint.port});
  UniqueFd fd(socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return false;
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  if (connect(fd.get(), to.get(), to.size()) != 0 && errno != EINPROGRESS) {
    LogFailedConnect(endpoint, errno);
    return false;
  }
  endpoint_ = std::move(fd);
  endpoint_ready_.emplace(base_, endpoint_.get(), kEvents, [this] { OnEndpoint(); });
  endpoint_ready_->Wait();
  timer_.After(connect_timeout_);
  return true;
}

void ForwardedConnection::OnTimer() {
  if (ended_) return;
  if (established_) {
    Move();
  } else {
    TryNextEndpoint();
  }
}

void ForwardedConnection::OnClient() {
  if (ended_) return;
  if (established_) {
    Move();
  } else if (TakeError(client_.get()) != 0) {
    Reset();
  }
}

void ForwardedConnection::OnEndpoint() {
  if (ended_) return;
  if (established_) {
    Move();
  } else if (const int error = TakeError(endpoint_.get()); error != 0) {
    LogFailedConnect(tried_.back(), error);
    endpoint_ready_->Cancel();
    endpoint_.Close();
    timer_.After(kNow);
  } else {
    Establish();
  }
}

void ForwardedConnection::Establish() {
  established_ = true;
  timer_.Cancel();
  picker_->Connected(tried_.back(), std::chrono::steady_clock::now());
  for (Transfer* transfer : {&to_endpoint_, &to_client_}) {
    if (const absl::Status opened = transfer->Open(); !opened.ok()) {
      spdlog::debug("connection to localhost nodePort reset error={}", LogValue(opened));
      Reset();
      return;
    }
  }
  Move();
}

void ForwardedConnection::Move() {
  const Transfer::Result up = to_endpoint_.Move(client_.get(), endpoint_.get());
  const Transfer::Result down = to_client_.Move(endpoint_.get(), client_.get());
  const auto either = [&](Transfer::Result result) { return up == result || down == result; };
  // The kernel reports the reset of a socket only in SO_ERROR if the socket is read to its end, or
  // is not read because the other side accepts no data.
  const bool failed = either(Transfer::Result::kFailed) || TakeError(client_.get()) != 0 ||
                      TakeError(endpoint_.get()) != 0;
  if (up == Transfer::Result::kDone && down == Transfer::Result::kDone) {
    End();
  } else if (failed) {
    Reset();
  } else if (either(Transfer::Result::kMore)) {
    timer_.After(kNow);
  }
}

void ForwardedConnection::Reset() {
  ResetWhenClosed(client_);
  if (endpoint_.ok()) ResetWhenClosed(endpoint_);
  End();
}

void ForwardedConnection::End() {
  ended_ = true;
  client_ready_.Cancel();
  if (endpoint_ready_) endpoint_ready_->Cancel();
  timer_.Cancel();
  client_.Close();
  endpoint_.Close();
  to_endpoint_ = Transfer();
  to_client_ = Transfer();
  on_end_();
}

absl::Status Transfer::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoStatus(errno, "create a pipe");
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
  return absl::OkStatus();
}

Transfer::Result Transfer::Move(int source, int target) {
  if (ended_) return Result::kDone;
  for (int i = 0; i < kTransfersInARow; ++i) {
    if (held_ == 0) {
      const ssize_t read =
          splice(source, nullptr, write_end_.get(), nullptr, kPipeBytes, kSpliceFlags);
      if (read < 0) return ResultOfErrno();
      if (read == 0) {
        ended_ = true;
        return shutdown(target, SHUT_WR) == 0 ? Result::kDone : Result::kFailed;
      }
      held_ = static_cast<size_t>(read);
    }
    const ssize_t written = splice(read_end_.get(), nullptr, target, nullptr, held_, kSpliceFlags);
    if (written < 0) return ResultOfErrno();
    held_ -= static_cast<size_t>(written);
  }
  return Result::kMore;
}

}  // namespace svcmap::api
