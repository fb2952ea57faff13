#include "api/screen/screen_loop.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/log/log_value.h"
#include "api/tls/tls_files.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

constexpr size_t kReadBytes = 64 * 1024;
// Interval at which deadlines are checked, while connections with deadlines exist.
constexpr milliseconds kTick{20};
// Interval at which the sockets of trusted clients are checked for unread bytes.
constexpr milliseconds kUnreadTick{1000};
// Time for the client to read the last bytes after gRPC has closed a connection.
constexpr milliseconds kLinger{1000};
// Number of closed connections after which memory is returned to the system.
constexpr size_t kTrimAfter = 32;
constexpr milliseconds kTrimDelay{1000};
// Buffers for pending bytes that are larger than this are freed when they are empty.
constexpr size_t kKeptCapacity = 4096;
constexpr uint32_t kEnhanceYourCalm = 11;  // HTTP/2 error code.

std::string BigEndian32(uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16),
          static_cast<char>(number >> 8), static_cast<char>(number)};
}

// Returns a GOAWAY frame with the reason, which gRPC libraries show to the caller.
std::string Goaway(const std::string& reason) {
  const std::string payload = BigEndian32(0x7fffffff) + BigEndian32(kEnhanceYourCalm) + reason;
  return BigEndian32(static_cast<uint32_t>(payload.size())).substr(1) + '\x07' + '\0' +
         BigEndian32(0) + payload;
}

}  // namespace

Io ScreenedConnection::Read(Side& side, std::span<char> into, size_t& count) {
  if (&side == &client && ssl) {
    ERR_clear_error();
    const int read = SSL_read(ssl.get(), into.data(), static_cast<int>(into.size()));
    if (read > 0) {
      count = static_cast<size_t>(read);
      return Io::kDone;
    }
    switch (SSL_get_error(ssl.get(), read)) {
      case SSL_ERROR_WANT_WRITE:
        wants_write = true;
        return Io::kBlocked;
      case SSL_ERROR_WANT_READ:
        return Io::kBlocked;
      case SSL_ERROR_ZERO_RETURN:
        return Io::kEof;
      default:
        ERR_clear_error();
        return Io::kFailed;
    }
  }
  if (peer.trusted) into = into.first(kGreetingBytes);
  const ssize_t read = recv(side.fd.get(), into.data(), into.size(), peer.trusted ? MSG_PEEK : 0);
  if (read > 0) {
    count = static_cast<size_t>(read);
    return Io::kDone;
  }
  if (read == 0) return Io::kEof;
  return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Io::kFailed;
}

Io ScreenedConnection::Write(Side& side, std::string_view bytes, size_t& count) {
  if (&side == &client && ssl) {
    ERR_clear_error();
    const int sent = SSL_write(ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (sent > 0) {
      count = static_cast<size_t>(sent);
      return Io::kDone;
    }
    const int error = SSL_get_error(ssl.get(), sent);
    ERR_clear_error();
    return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? Io::kBlocked
                                                                         : Io::kFailed;
  }
  const ssize_t sent = send(side.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent > 0) {
    count = static_cast<size_t>(sent);
    return Io::kDone;
  }
  return sent < 0 && (errno == EAGAIN || errno == EINTR) ? Io::kBlocked : Io::kFailed;
}

ScreenLoop::ScreenLoop(Screen& screen) : screen_(screen), buffer_(kReadBytes) {}

ScreenLoop::~ScreenLoop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

absl::Status ScreenLoop::Start() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.ok() || !wake_.ok()) return ErrnoStatus(errno, "epoll_create1, eventfd");
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return ErrnoStatus(errno, "epoll_ctl");
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void ScreenLoop::Add(std::unique_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    added_.push_back(std::move(connection));
  }
  eventfd_write(wake_.get(), 1);
}

void ScreenLoop::Run() {
  std::vector<epoll_event> events(64);
  while (!stop_) {
    int timeout = -1;
    if (connections_with_deadline_ > 0 || !closing_.empty() || TrimIsDue()) {
      timeout = static_cast<int>(kTick.count());
    } else if (this == screen_.greeter_.get() && !connections_.empty()) {
      timeout = static_cast<int>(kUnreadTick.count());
    }
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    now_ = ScreenClock::now();
    for (int i = 0; i < count; ++i) {
      auto* side = static_cast<Connection::Side*>(events[static_cast<size_t>(i)].data.ptr);
      if (side == nullptr) {
        eventfd_t value = 0;
        eventfd_read(wake_.get(), &value);
      } else if (!side->connection->dead) {
        OnEvent(*side, events[static_cast<size_t>(i)].events);
      }
    }
    TakeAdded();
    CheckDeadlines();
    CheckUnread();
    RemoveClosed();
    dead_.clear();
    MaybeTrim();
  }
  while (!connections_.empty()) Close(*connections_.begin()->second);
  dead_.clear();
  for (const Closing& closing : closing_) screen_.limits_.Remove(closing.handle);
  const std::lock_guard lock(mutex_);
  for (const auto& connection : added_) {
    screen_.limits_.Close(connection->handle);
    screen_.limits_.Remove(connection->handle);
  }
  added_.clear();
}

void ScreenLoop::RemoveClosed() {
  std::erase_if(closing_, [this](const Closing& closing) {
    if (closing.grpc_end.is_open()) return false;
    screen_.limits_.Remove(closing.handle);
    CountForTrim(1);
    return true;
  });
}

void ScreenLoop::TakeAdded() {
  std::vector<std::unique_ptr<Connection>> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
  }
  for (std::unique_ptr<Connection>& owned : added) {
    Connection& connection = *owned;
    connections_.emplace(&connection, std::move(owned));
    if (connection.deadline != ScreenClock::time_point::max()) ++connections_with_deadline_;
    if (screen_.limits_.WasShutDown(connection.handle)) {
      Close(connection);  // Without the cost of a handshake.
      continue;
    }
    if (connection.handshake) {
      connection.ssl = screen_.options_.tls->Accept(connection.client.fd.get());
      if (!connection.ssl) {
        Reject(connection, Rejection::kHandshakeFailed, "error=\"out of memory\"");
        continue;
      }
    }
    Proceed(connection);
  }
}

void ScreenLoop::CheckDeadlines() {
  if (connections_with_deadline_ == 0) return;
  std::vector<Connection*> late;
  for (const auto& [connection, owned] : connections_) {
    if (connection->deadline <= now_) late.push_back(connection);
  }
  for (Connection* connection : late) {
    if (connection->server.eof) {  // The client did not read the last bytes in time.
      Close(*connection);
    } else if (connection->server.fd.ok()) {
      Reject(*connection, Rejection::kResponsesNotRead,
             absl::StrCat("limit=", screen_.options_.unread_within.count(), "ms"));
    } else {
      Reject(*connection, Rejection::kGreetingTimeout,
             absl::StrCat("limit=", screen_.options_.greet_within.count(), "ms"));
    }
  }
}

void ScreenLoop::CheckUnread() {
  if (this != screen_.greeter_.get() || now_ < check_unread_at_) return;
  check_unread_at_ = now_ + kUnreadTick;
  std::vector<Connection*> late;
  for (const auto& [connection, owned] : connections_) {
    // gRPC has the connections without a deadline.
    if (!connection->peer.trusted || connection->deadline != ScreenClock::time_point::max()) {
      continue;
    }
    int unread = 0;
    ioctl(connection->client.fd.get(), SIOCOUTQ, &unread);
    if (unread == 0 || unread != connection->unread) {
      connection->unread = unread;
      connection->unread_since = now_;
    } else if (now_ - connection->unread_since >= screen_.options_.unread_within) {
      late.push_back(connection);
    }
    // Between two checks, the client may read all bytes, and gRPC may send as many bytes again.
    Watch(connection->client, unread > 0 ? EPOLLRDHUP | EPOLLOUT : EPOLLRDHUP);
  }
  for (Connection* connection : late) {
    Reject(*connection, Rejection::kResponsesNotRead,
           absl::StrCat("limit=", screen_.options_.unread_within.count(), "ms"));
  }
}

void ScreenLoop::OnEvent(Connection::Side& side, uint32_t events) {
  Connection& connection = *side.connection;
  if (connection.handshake) return Handshake(connection);
  // The client, gRPC or the limits have shut down the socket.
  constexpr uint32_t kEnd = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if (connection.peer.trusted && (events & kEnd) != 0) return Gone(connection);
  if (connection.peer.trusted && (events & EPOLLOUT) != 0) {
    connection.unread = 0;  // The client reads, or the buffer is not full.
    return Watch(side, EPOLLRDHUP);
  }
  connection.wants_write = false;
  if (&side == &connection.client) {
    if (!Flush(connection, connection.client)) return;
    const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    if (readable && (side.interest & EPOLLIN) != 0 && !ReadClient(connection)) return;
  } else {
    if (!Flush(connection, connection.server)) return;
    if ((events & (EPOLLIN | EPOLLHUP)) != 0 && !ReadServer(connection)) return;
  }
  Proceed(connection);
}

void ScreenLoop::Gone(Connection& connection) {
  if (connection.handshake) {
    return Reject(connection, Rejection::kHandshakeFailed, "error=\"connection closed\"");
  }
  Close(connection);
}

void ScreenLoop::Handshake(Connection& connection) {
  ERR_clear_error();
  const int result = SSL_do_handshake(connection.ssl.get());
  const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(connection.ssl.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    connection.wants_write = error == SSL_ERROR_WANT_WRITE;
    return UpdateInterest(connection);
  }
  const unsigned char* protocol = nullptr;
  unsigned protocol_bytes = 0;
  if (result == 1) SSL_get0_alpn_selected(connection.ssl.get(), &protocol, &protocol_bytes);
  if (result != 1 || protocol_bytes == 0) {
    std::string problem = result == 1 ? "client does not offer HTTP/2" : TakeSslError();
    const std::string certificate = VerifyProblemOf(connection.ssl.get());
    // The peer chooses the names in its certificate.
    constexpr size_t kMaxReason = 200;
    if (!certificate.empty()) problem = certificate.substr(0, kMaxReason);
    return Reject(connection, Rejection::kHandshakeFailed, "error=" + LogValue(problem));
  }
  connection.handshake = false;
  connection.wants_write = false;
  connection.peer = screen_.options_.identify(NamesOf(connection.ssl.get()));
  connection.check = FrameCheck(screen_.FrameLimitsOf(connection.peer.role), now_);
  if (const auto rejected = screen_.limits_.Identify(connection.handle, connection.peer.key,
                                                     connection.peer.role, now_)) {
    return Reject(connection, *rejected, screen_.LimitText(*rejected));
  }
  Proceed(connection);
}

bool ScreenLoop::ReadClient(Connection& connection) {
  size_t bytes = 0;
  switch (connection.Read(connection.client, buffer_, bytes)) {
    case Io::kBlocked:
      return true;
    case Io::kFailed:
      Gone(connection);
      return false;
    case Io::kEof:
      if (!connection.server.fd.ok()) {
        Gone(connection);
        return false;
      }
      connection.client.eof = true;
      if (connection.server.pending.empty()) shutdown(connection.server.fd.get(), SHUT_WR);
      return true;
    case Io::kDone:
      break;
  }
  const std::string_view view(buffer_.data(), bytes);
  // The bytes of trusted clients stay in the socket for gRPC, so `view` starts with the preface.
  if (connection.peer.trusted) {
    connection.check = FrameCheck(screen_.FrameLimitsOf(connection.peer.role), now_);
  }
  if (const Offence offence = connection.check.FromClient(view, now_)) {
    Punish(connection, *offence);
    return false;
  }
  if (!connection.peer.trusted) connection.server.pending.append(view);
  if (!connection.server.fd.ok()) {
    if (!connection.check.greeted()) return true;
    HandOver(connection);
    return false;
  }
  return Flush(connection, connection.server);
}

bool ScreenLoop::ReadServer(Connection& connection) {
  if (!connection.client.pending.empty()) return true;
  size_t bytes = 0;
  switch (connection.Read(connection.server, buffer_, bytes)) {
    case Io::kBlocked:
      return true;
    case Io::kFailed:
    case Io::kEof:
      connection.server.eof = true;
      return true;
    case Io::kDone:
      break;
  }
  const std::string_view view(buffer_.data(), bytes);
  if (const Offence offence = connection.check.FromServer(view, now_)) {
    Punish(connection, *offence);
    return false;
  }
  connection.client.pending.append(view);
  return Flush(connection, connection.client);
}

bool ScreenLoop::Flush(Connection& connection, Connection::Side& side) {
  if (side.pending.empty() || !side.fd.ok()) return true;
  size_t written = 0;
  while (written < side.pending.size()) {
    size_t sent = 0;
    const Io io = connection.Write(side, std::string_view(side.pending).substr(written), sent);
    if (io == Io::kBlocked) break;
    if (io != Io::kDone) {
      if (&side == &connection.client) {
        Gone(connection);
        return false;
      }
      side.pending.clear();  // gRPC has closed its end. The last bytes from gRPC are still read.
      return true;
    }
    written += sent;
  }
  if (&side == &connection.client && written > 0 && connection.server.fd.ok() &&
      !connection.server.eof) {
    SetDeadline(connection, ScreenClock::time_point::max());  // The client reads.
  }
  if (written == side.pending.size()) {
    side.pending.clear();
    if (side.pending.capacity() > kKeptCapacity) side.pending.shrink_to_fit();
    if (&side == &connection.server && connection.client.eof) {
      shutdown(side.fd.get(), SHUT_WR);
    }
  } else {
    side.pending.erase(0, written);
  }
  return true;
}

void ScreenLoop::Proceed(Connection& connection) {
  if (connection.handshake) return Handshake(connection);
  if (connection.server.eof) {
    if (connection.client.pending.empty()) return Close(connection);
    SetDeadline(connection, std::min(connection.deadline, now_ + kLinger));
  } else if (connection.server.fd.ok() && !connection.client.pending.empty() &&
             connection.deadline == ScreenClock::time_point::max()) {
    SetDeadline(connection, now_ + screen_.options_.unread_within);
  }
  UpdateInterest(connection);
}

void ScreenLoop::SetDeadline(Connection& connection, ScreenClock::time_point deadline) {
  const auto none = ScreenClock::time_point::max();
  if (connection.deadline != none) --connections_with_deadline_;
  if (deadline != none) ++connections_with_deadline_;
  connection.deadline = deadline;
}

void ScreenLoop::UpdateInterest(Connection& connection) {
  Connection::Side& client = connection.client;
  Connection::Side& server = connection.server;
  // Without EPOLLET, the beginning of a preface would be reported until the rest arrives.
  if (connection.peer.trusted) return Watch(client, EPOLLIN | EPOLLRDHUP | EPOLLET);
  uint32_t wanted = 0;
  // Stops reading from the client while the client does not read its responses.
  if (client.pending.empty() && !client.eof && (server.pending.empty() || !server.fd.ok())) {
    wanted |= EPOLLIN;
  }
  if (!client.pending.empty() || connection.wants_write) wanted |= EPOLLOUT;
  Watch(client, wanted);
  if (!server.fd.ok()) return;
  wanted = 0;
  if (client.pending.empty() && !server.eof) wanted |= EPOLLIN;
  if (!server.pending.empty()) wanted |= EPOLLOUT;
  Watch(server, wanted);
}

void ScreenLoop::Watch(Connection::Side& side, uint32_t events) {
  if (events == side.interest) return;
  epoll_event event = {.events = events, .data = {.ptr = &side}};
  const int operation = events == 0          ? EPOLL_CTL_DEL
                        : side.interest == 0 ? EPOLL_CTL_ADD
                                             : EPOLL_CTL_MOD;
  epoll_ctl(epoll_.get(), operation, side.fd.get(), &event);
  side.interest = events;
}

void ScreenLoop::HandOver(Connection& connection) {
  int ends[2] = {-1, -1};
  if (connection.peer.trusted) {
    ends[1] = fcntl(connection.client.fd.get(), F_DUPFD_CLOEXEC, 0);
  } else {
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
  }
  connection.server.fd = UniqueFd(ends[0]);
  UniqueFd grpc_end(ends[1]);
  if (!grpc_end.ok()) {
    return Reject(connection, Rejection::kTotalLimit,
                  absl::StrCat("error=\"create a descriptor: errno ", errno, "\""));
  }
  connection.grpc_end = GrpcEnd(grpc_end.get());
  screen_.limits_.Greeted(connection.handle);
  SetDeadline(connection, ScreenClock::time_point::max());
  if (connection.peer.trusted) {
    Watch(connection.client, EPOLLRDHUP);  // To remove the connection from the limits.
    return screen_.options_.hand_over(std::move(grpc_end), connection.peer);
  }
  Watch(connection.client, 0);
  const auto found = connections_.find(&connection);
  std::unique_ptr<Connection> owned = std::move(found->second);
  connections_.erase(found);
  screen_.options_.hand_over(std::move(grpc_end), connection.peer);
  screen_.relay_->Add(std::move(owned));
}

void ScreenLoop::Punish(Connection& connection, Rejection offence) {
  // A connection without a preface has used no resources in gRPC, so its peer is not penalized.
  if (connection.server.fd.ok()) screen_.limits_.Penalize(connection.handle, now_);
  CountForTrim(kTrimAfter);
  connection.rejection = offence;
  if (connection.server.fd.ok() && connection.check.server_between_frames() &&
      connection.client.pending.empty()) {
    connection.client.pending = Goaway(NameOf(offence));
    if (!Flush(connection, connection.client)) return;  // The client has closed the connection.
  }
  Close(connection);
}

void ScreenLoop::Reject(Connection& connection, Rejection reason, const std::string& detail) {
  connection.rejection = reason;
  connection.rejection_detail = detail;
  Close(connection);
}

void ScreenLoop::Close(Connection& connection) {
  connection.dead = true;
  Watch(connection.client, 0);
  if (connection.server.fd.ok()) Watch(connection.server, 0);
  if (connection.deadline != ScreenClock::time_point::max()) --connections_with_deadline_;
  if (screen_.limits_.Close(connection.handle)) {
    connection.rejection = Rejection::kMadeRoom;
    connection.rejection_detail.clear();
  }
  if (connection.rejection) {
    screen_.rejections_.Add(*connection.rejection, connection.peer.key,
                            connection.rejection_detail);
  }
  const auto found = connections_.find(&connection);
  // Keep the object, because events of the same epoll_wait() may still refer to the connection.
  dead_.push_back(std::move(found->second));
  connections_.erase(found);
  Connection& closed = *dead_.back();
  closed.ssl.reset();
  // gRPC has its own descriptor, and cannot close the connection while a write is blocked.
  if (closed.peer.trusted) shutdown(closed.client.fd.get(), SHUT_RDWR);
  closed.client.fd = UniqueFd();
  closed.server.fd = UniqueFd();
  closing_.push_back({closed.handle, closed.grpc_end});
}

bool ScreenLoop::TrimIsDue() const {
  return this == screen_.greeter_.get() && screen_.closed_connections_ >= kTrimAfter;
}

void ScreenLoop::CountForTrim(size_t connections) {
  const size_t before = screen_.closed_connections_.fetch_add(connections);
  if (before < kTrimAfter && before + connections >= kTrimAfter && screen_.greeter_) {
    eventfd_write(screen_.greeter_->wake_.get(), 1);
  }
}

void ScreenLoop::MaybeTrim() {
  if (!TrimIsDue()) return;
  if (!trim_at_) trim_at_ = now_ + kTrimDelay;
  if (now_ < *trim_at_) return;
  trim_at_.reset();
  screen_.closed_connections_ = 0;
  malloc_trim(0);
}

}  // namespace svcmap::api
