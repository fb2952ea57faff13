#include "tests/bench/opponents/tcp_forwarder.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tests/support/socket_address.h"

namespace svcmap::bench {
namespace {

// Copies data until `from` is closed, then shuts down `to`.
void CopyStream(int from, int to) {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count <= 0) break;
    for (ssize_t done = 0; done < count;) {
      const ssize_t sent =
          ::send(to, buffer.data() + done, static_cast<size_t>(count - done), MSG_NOSIGNAL);
      if (sent <= 0) return;
      done += sent;
    }
  }
  ::shutdown(to, SHUT_WR);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpForwarder>> TcpForwarder::Start(const testing::NetNs& netns,
                                                                  const std::string& host,
                                                                  const std::string& port) {
  UniqueFd listener(netns.Run([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }));
  absl::StatusOr<testing::SocketAddress> address = testing::SocketAddress::Parse("127.0.0.1", 0);
  if (!address.ok()) return address.status();
  socklen_t size = testing::SocketAddress::kCapacity;
  if (!listener.ok() || ::bind(listener.get(), address->get(), address->size()) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), address->out(), &size) != 0) {
    return absl::ErrnoToStatus(errno, "listen for connections to " + host);
  }
  std::unique_ptr<TcpForwarder> forwarder(
      new TcpForwarder(std::move(listener), address->port(), host, port));
  // Connect once to report connection errors early.
  if (!forwarder->Connect().ok()) {
    return absl::UnavailableError("nothing answers at " + host + ", port " + port);
  }
  forwarder->thread_ = std::thread([raw = forwarder.get()] { raw->Accept(); });
  return forwarder;
}

TcpForwarder::TcpForwarder(UniqueFd listener, uint16_t port, std::string host,
                           std::string server_port)
    : listener_(std::move(listener)),
      port_(port),
      host_(std::move(host)),
      server_port_(std::move(server_port)) {}

TcpForwarder::~TcpForwarder() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  for (const std::unique_ptr<Connection>& connection : connections_) {
    ::shutdown(connection->client.get(), SHUT_RDWR);
    ::shutdown(connection->server.get(), SHUT_RDWR);
    connection->up.join();
    connection->down.join();
  }
}

void TcpForwarder::Accept() {
  for (;;) {
    UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.ok()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    UniqueFd server = Connect();
    // Close the client's connection if the server does not answer.
    if (!server.ok()) continue;
    const int from = client.get();
    const int to = server.get();
    Connection& connection = *connections_.emplace_back(
        new Connection{.client = std::move(client), .server = std::move(server)});
    connection.up = std::thread(CopyStream, from, to);
    connection.down = std::thread(CopyStream, to, from);
  }
}

UniqueFd TcpForwarder::Connect() const {
  const addrinfo hints = {.ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  if (::getaddrinfo(host_.c_str(), server_port_.c_str(), &hints, &list) != 0) return UniqueFd();
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    UniqueFd fd(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd.ok() && ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0) return fd;
  }
  return UniqueFd();
}

}  // namespace svcmap::bench
