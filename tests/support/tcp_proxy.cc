#include "tests/support/tcp_proxy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "nft/base/status.h"
#include "tests/support/socket_address.h"

namespace svcmap::testing {
namespace {

constexpr int kTickMs = 20;  // Interval for reading the flags.

UniqueFd TcpSocket() { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Writes all bytes. Blocks while the receiver does not read.
bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpProxy>> TcpProxy::Start(const NetNs& netns, uint16_t port,
                                                          uint16_t destination) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse("127.0.0.1", port);
  if (!address.ok()) return address.status();
  UniqueFd listener = netns.Run([&] { return TcpSocket(); });
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), address->get(), address->size()) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(errno, "listen on 127.0.0.1");
  }
  return std::unique_ptr<TcpProxy>(new TcpProxy(netns, std::move(listener), destination));
}

TcpProxy::TcpProxy(const NetNs& netns, UniqueFd listener, uint16_t destination)
    : netns_(netns),
      listener_(std::move(listener)),
      destination_(destination),
      thread_([this] { Run(); }) {}

TcpProxy::~TcpProxy() {
  stopping_ = true;
  thread_.join();
}

void TcpProxy::Run() {
  int swallowed = 0;
  while (!stopping_) {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      for (const UniqueFd& end : pair.ends) polled.push_back({end.get(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kTickMs);
    if (refuse_) pairs_.clear();
    if (const int swallow = swallow_; swallowed != swallow) {
      swallowed = swallow;
      for (Pair& pair : pairs_) pair.swallows = true;
    }
    std::erase_if(pairs_, [this](Pair& pair) { return !Forward(pair); });
    if ((polled[0].revents & POLLIN) != 0) Accept();
  }
}

void TcpProxy::Accept() {
  UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.ok() || refuse_) return;
  UniqueFd server = netns_.Run([] { return TcpSocket(); });
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse("127.0.0.1", destination_);
  if (!address.ok() || connect(server.get(), address->get(), address->size()) != 0) return;
  ++accepted_;
  Pair& pair = pairs_.emplace_back();
  pair.ends[0] = std::move(client);
  pair.ends[1] = std::move(server);
}

bool TcpProxy::Forward(Pair& pair) {
  char buffer[65536];
  for (int from = 0; from < 2; ++from) {
    const ssize_t size = recv(pair.ends[from].get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return false;
    auto& received = pair.received[from];
    const Clock::time_point now = Clock::now();
    if (size > 0 && !pair.swallows)
      received.emplace_back(now, std::string(buffer, static_cast<size_t>(size)));
    while (!received.empty() && now - received.front().first >= delay_.load()) {
      if (!WriteAll(pair.ends[1 - from].get(), received.front().second)) return false;
      received.pop_front();
    }
  }
  return true;
}

}  // namespace svcmap::testing
