#include "tests/hostile/wire.h"
#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace svcmap::hostile {
namespace {

constexpr unsigned char kHttp2[] = {2, 'h', '2'};  // ALPN protocol list.

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

std::unique_ptr<Wire> Wire::ConnectUnix(const std::string& path, uint32_t uid) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  // Use the system call, because it changes the uid of only this thread.
  if (uid != 0) syscall(SYS_setresuid, -1, uid, -1);
  const int connected =
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (uid != 0) syscall(SYS_setresuid, -1, 0, -1);
  if (connected != 0) return nullptr;
  SetNonBlocking(fd.get());
  return std::unique_ptr<Wire>(new Wire(std::move(fd)));
}

std::unique_ptr<Wire> Wire::ConnectTcp(uint16_t port, uint32_t source) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Close with a reset to avoid TIME-WAIT, because thousands of consecutive connections reuse their
  // ports.
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(source);
  const auto* from_address = reinterpret_cast<const sockaddr*>(&from);
  if (bind(fd.get(), from_address, sizeof(from)) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return nullptr;
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  SetNonBlocking(fd.get());
  return std::unique_ptr<Wire>(new Wire(std::move(fd)));
}

std::unique_ptr<Wire> Wire::ConnectTls(uint16_t port, uint32_t source,
                                       const testing::KeyPair& client) {
  std::unique_ptr<Wire> wire = ConnectTcp(port, source);
  if (!wire) return nullptr;
  wire->context_ = SSL_CTX_new(TLS_client_method());
  if (!client.certificate.empty()) testing::UsePair(wire->context_, client);
  SSL_CTX_set_mode(wire->context_,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_alpn_protos(wire->context_, kHttp2, sizeof(kHttp2));
  wire->ssl_ = SSL_new(wire->context_);
  SSL_set_fd(wire->ssl_, wire->fd_.get());
  const auto deadline = Clock::now() + testing::kHangLimit;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_connect(wire->ssl_);
    if (result == 1) return wire;
    const int error = SSL_get_error(wire->ssl_, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return nullptr;
    if (Clock::now() > deadline) return nullptr;
    wire->Poll(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline);
  }
}

Wire::~Wire() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
}

void Wire::Poll(short events, Clock::time_point deadline) const {
  pollfd polled = {fd_.get(), events, 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000)));
}

bool Wire::Send(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty() && !closed_) {
    ssize_t sent = 0;
    bool full = false;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      sent = SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      const int error = sent > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(sent));
      full = error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ;
    } else {
      sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      full = sent < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (!full) {
      closed_ = true;
    } else {
      if (Clock::now() >= deadline) return false;
      Poll(POLLOUT, deadline);
    }
  }
  return !closed_;
}

std::string Wire::Receive() {
  std::string all;
  char bytes[16384];
  while (!closed_) {
    ssize_t got = 0;
    bool empty = false;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      got = SSL_read(ssl_, bytes, sizeof(bytes));
      const int error = got > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(got));
      empty = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    } else {
      got = recv(fd_.get(), bytes, sizeof(bytes), 0);
      empty = got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (got <= 0) {
      closed_ = !empty;
      break;
    }
    all.append(bytes, static_cast<size_t>(got));
  }
  return all;
}

int Wire::Unread() const {
  int bytes = 0;
  ioctl(fd_.get(), FIONREAD, &bytes);
  return bytes;
}

bool Wire::AwaitClose(Clock::time_point deadline) {
  for (;;) {
    Receive();
    if (closed_) return true;
    if (Clock::now() >= deadline) return false;
    Poll(POLLIN, deadline);
  }
}

}  // namespace svcmap::hostile
