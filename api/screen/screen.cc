#include "api/screen/screen.h"

#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/screen/grpc_end.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;
using ScreenClock = TokenBucket::Clock;

constexpr size_t kReadBytes = 64 * 1024;
// Interval at which deadlines are checked, while connections with deadlines exist.
constexpr milliseconds kTick{20};
// Time for the client to read the last bytes after gRPC has closed a connection.
constexpr milliseconds kLinger{1000};
// Number of closed connections after which memory is returned to the system.
constexpr size_t kTrimAfter = 32;
constexpr milliseconds kTrimDelay{1000};
constexpr uint32_t kEnhanceYourCalm = 11;  // HTTP/2 error code.

Rejection RejectionOf(Offence offence) {
  switch (offence) {
    case Offence::kTooManyStreams:
      return Rejection::kTooManyStreams;
    case Offence::kRequestsTooLarge:
      return Rejection::kRequestsTooLarge;
    case Offence::kTooManyResets:
      return Rejection::kTooManyResets;
    case Offence::kTooManyFrames:
      return Rejection::kTooManyFrames;
    case Offence::kHeaderBlockTooLarge:
      return Rejection::kHeaderBlockTooLarge;
    case Offence::kNone:
    case Offence::kNotHttp2:
      break;
  }
  return Rejection::kNotHttp2;
}

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

enum class Io { kDone, kBlocked, kEof, kFailed };

}  // namespace

struct Screen::Connection {
  // One of the two sockets of a connection, registered with epoll.
  struct Side {
    Connection* connection = nullptr;
    UniqueFd fd;
    // Events registered with epoll, or 0 if the descriptor is not registered.
    uint32_t interest = 0;
    std::string pending;  // Bytes from the other side that have not been written to this side yet.
    bool eof = false;
  };

  Connection(UniqueFd fd, Peer from, ConnectionLimits::Handle entry, const FrameLimits& limits,
             ScreenClock::time_point now)
      : peer(std::move(from)), handle(entry), check(limits, now) {
    client.connection = server.connection = this;
    client.fd = std::move(fd);
  }

  Side client;
  Side server;  // Has no descriptor until gRPC has received its end of the socket pair.
  GrpcEnd grpc_end;
  SslConnection ssl;
  bool handshake = false;    // True while the TLS handshake is in progress.
  bool wants_write = false;  // True if TLS must write before TLS can continue.
  Peer peer;
  ConnectionLimits::Handle handle;
  FrameCheck check;
  ScreenClock::time_point deadline = ScreenClock::time_point::max();
  // Reason why the connection is being closed, or nullopt if the client or gRPC closes it.
  std::optional<Rejection> rejection;
  std::string rejection_detail;
  bool dead = false;
};

// A thread that relays the bytes of a set of connections.
class ScreenLoop {
 public:
  using Connection = Screen::Connection;

  explicit ScreenLoop(Screen& screen) : screen_(screen) {}
  ~ScreenLoop() {
    if (!thread_.joinable()) return;
    stop_ = true;
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }

  absl::Status Start() {
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

  // Thread-safe.
  void Add(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex_);
      added_.push_back(std::move(connection));
    }
    eventfd_write(wake_.get(), 1);
  }

 private:
  void Run() {
    std::vector<epoll_event> events(64);
    while (!stop_) {
      const int timeout = connections_with_deadline_ > 0 || !closing_.empty() || TrimIsDue()
                              ? static_cast<int>(kTick.count())
                              : -1;
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

  // Removes the connections that gRPC has released from the limits. Without this delay, clients
  // could open connections faster than gRPC frees the calls of closed connections.
  void RemoveClosed() {
    std::erase_if(closing_, [this](const Closing& closing) {
      if (closing.grpc_end.is_open()) return false;
      screen_.limits_.Remove(closing.handle);
      CountForTrim(1);
      return true;
    });
  }

  void TakeAdded() {
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

  void CheckDeadlines() {
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

  void OnEvent(Connection::Side& side, uint32_t events) {
    Connection& connection = *side.connection;
    if (connection.handshake) return Handshake(connection);
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

  // Handles a connection that the client has closed, or that was shut down in favor of a newer
  // connection.
  void Gone(Connection& connection) {
    if (connection.handshake) {
      return Reject(connection, Rejection::kHandshakeFailed, "error=\"connection closed\"");
    }
    Close(connection);
  }

  void Handshake(Connection& connection) {
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
      return Reject(
          connection, Rejection::kHandshakeFailed,
          absl::StrCat("error=\"", result == 1 ? "client does not offer HTTP/2" : TakeSslError(),
                       "\""));
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

  // Returns false if the connection was closed.
  bool ReadClient(Connection& connection) {
    size_t bytes = 0;
    switch (Read(connection, connection.client, bytes)) {
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
    if (const Offence offence = connection.check.FromClient(view, now_);
        offence != Offence::kNone) {
      Punish(connection, offence);
      return false;
    }
    connection.server.pending.append(view);
    if (!connection.server.fd.ok()) {
      if (!connection.check.greeted()) return true;
      HandOver(connection);
      return false;  // Another loop now owns the connection.
    }
    return Flush(connection, connection.server);
  }

  bool ReadServer(Connection& connection) {
    if (!connection.client.pending.empty()) return true;
    size_t bytes = 0;
    switch (Read(connection, connection.server, bytes)) {
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
    if (const Offence offence = connection.check.FromServer(view, now_);
        offence != Offence::kNone) {
      Punish(connection, offence);
      return false;
    }
    connection.client.pending.append(view);
    return Flush(connection, connection.client);
  }

  Io Read(Connection& connection, Connection::Side& side, size_t& bytes) {
    if (&side == &connection.client && connection.ssl) {
      ERR_clear_error();
      const int read = SSL_read(connection.ssl.get(), buffer_.data(), kReadBytes);
      if (read > 0) {
        bytes = static_cast<size_t>(read);
        return Io::kDone;
      }
      switch (SSL_get_error(connection.ssl.get(), read)) {
        case SSL_ERROR_WANT_WRITE:
          connection.wants_write = true;
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
    const ssize_t read = recv(side.fd.get(), buffer_.data(), kReadBytes, 0);
    if (read > 0) {
      bytes = static_cast<size_t>(read);
      return Io::kDone;
    }
    if (read == 0) return Io::kEof;
    return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Io::kFailed;
  }

  // Writes as many pending bytes as the socket of `side` accepts. Returns false if the connection
  // was closed.
  bool Flush(Connection& connection, Connection::Side& side) {
    if (side.pending.empty() || !side.fd.ok()) return true;
    size_t written = 0;
    while (written < side.pending.size()) {
      const char* bytes = side.pending.data() + written;
      const size_t left = side.pending.size() - written;
      ssize_t sent = 0;
      bool blocked = false;
      if (&side == &connection.client && connection.ssl) {
        ERR_clear_error();
        sent = SSL_write(connection.ssl.get(), bytes, static_cast<int>(left));
        if (sent <= 0) {
          const int error = SSL_get_error(connection.ssl.get(), static_cast<int>(sent));
          blocked = error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ;
          ERR_clear_error();
        }
      } else {
        sent = send(side.fd.get(), bytes, left, MSG_NOSIGNAL);
        blocked = sent < 0 && (errno == EAGAIN || errno == EINTR);
      }
      if (sent <= 0) {
        if (blocked) break;
        if (&side == &connection.client) {
          Gone(connection);
          return false;
        }
        side.pending.clear();  // gRPC has closed its end. The last bytes from gRPC are still read.
        return true;
      }
      written += static_cast<size_t>(sent);
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

  // Call after any change of the connection's state. Registers the events to wait for, or closes
  // the connection.
  void Proceed(Connection& connection) {
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

  void SetDeadline(Connection& connection, ScreenClock::time_point deadline) {
    const auto none = ScreenClock::time_point::max();
    if (connection.deadline != none) --connections_with_deadline_;
    if (deadline != none) ++connections_with_deadline_;
    connection.deadline = deadline;
  }

  void UpdateInterest(Connection& connection) {
    Connection::Side& client = connection.client;
    Connection::Side& server = connection.server;
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

  // Unregisters the descriptor if `events` is 0, because epoll reports EPOLLHUP for every
  // registered descriptor.
  void Watch(Connection::Side& side, uint32_t events) {
    if (events == side.interest) return;
    epoll_event event = {.events = events, .data = {.ptr = &side}};
    const int operation = events == 0          ? EPOLL_CTL_DEL
                          : side.interest == 0 ? EPOLL_CTL_ADD
                                               : EPOLL_CTL_MOD;
    epoll_ctl(epoll_.get(), operation, side.fd.get(), &event);
    side.interest = events;
  }

  void HandOver(Connection& connection) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      return Reject(connection, Rejection::kTotalLimit,
                    absl::StrCat("error=\"socketpair: errno ", errno, "\""));
    }
    connection.server.fd = UniqueFd(ends[0]);
    UniqueFd grpc_end(ends[1]);
    connection.grpc_end = GrpcEnd(grpc_end.get());
    screen_.limits_.Greeted(connection.handle);
    SetDeadline(connection, ScreenClock::time_point::max());
    Watch(connection.client, 0);
    const auto found = connections_.find(&connection);
    std::unique_ptr<Connection> owned = std::move(found->second);
    connections_.erase(found);
    screen_.options_.hand_over(std::move(grpc_end), connection.peer);
    screen_.relay_->Add(std::move(owned));
  }

  void Punish(Connection& connection, Offence offence) {
    // A connection without a preface has used no resources in gRPC, so its peer is not penalized.
    if (connection.server.fd.ok()) screen_.limits_.Penalize(connection.handle, now_);
    CountForTrim(kTrimAfter);
    connection.rejection = RejectionOf(offence);
    if (connection.server.fd.ok() && connection.check.server_between_frames() &&
        connection.client.pending.empty()) {
      connection.client.pending = Goaway(NameOf(*connection.rejection));
      if (!Flush(connection, connection.client)) return;  // The client has closed the connection.
    }
    Close(connection);
  }

  void Reject(Connection& connection, Rejection reason, const std::string& detail) {
    connection.rejection = reason;
    connection.rejection_detail = detail;
    Close(connection);
  }

  void Close(Connection& connection) {
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
    closed.client.fd = UniqueFd();
    closed.server.fd = UniqueFd();
    closing_.push_back({closed.handle, closed.grpc_end});
  }

  bool TrimIsDue() const {
    return this == screen_.greeter_.get() && screen_.closed_connections_ >= kTrimAfter;
  }
  // Both loops call CountForTrim. An offence counts as kTrimAfter connections.
  void CountForTrim(size_t connections) {
    const size_t before = screen_.closed_connections_.fetch_add(connections);
    if (before < kTrimAfter && before + connections >= kTrimAfter && screen_.greeter_) {
      eventfd_write(screen_.greeter_->wake_.get(), 1);
    }
  }
  // Returns the memory of closed connections to the system, after gRPC has had time to free the
  // memory.
  void MaybeTrim() {
    if (!TrimIsDue()) return;
    if (!trim_at_) trim_at_ = now_ + kTrimDelay;
    if (now_ < *trim_at_) return;
    trim_at_.reset();
    screen_.closed_connections_ = 0;
    malloc_trim(0);
  }

  static constexpr size_t kKeptCapacity = 4096;

  // A closed connection that gRPC may still use.
  struct Closing {
    ConnectionLimits::Handle handle;
    GrpcEnd grpc_end;
  };

  Screen& screen_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> added_;  // Guarded by mutex_.

  // Used only on the thread of the loop.
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> dead_;
  std::vector<Closing> closing_;
  size_t connections_with_deadline_ = 0;
  ScreenClock::time_point now_ = ScreenClock::now();
  std::optional<ScreenClock::time_point> trim_at_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  std::thread thread_;
};

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

FrameLimits Screen::FrameLimitsOf(Role role) const {
  FrameLimits limits;
  if (role == Role::kWrite) {
    limits.max_streams = options_.writer_streams;
  } else {
    limits.max_streams = options_.reader_streams;
    limits.max_request_bytes = options_.reader_request_bytes;
    limits.max_header_block_bytes = options_.reader_header_block_bytes;
    limits.reset_burst = options_.reader_reset_burst;
    limits.resets_per_second = options_.reader_resets_per_second;
  }
  return limits;
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
  auto connection =
      std::make_unique<Connection>(std::move(fd), peer, handle, FrameLimitsOf(peer.role), now);
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
}

}  // namespace svcmap::api
