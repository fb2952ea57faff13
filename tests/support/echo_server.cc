#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/echo_server.h"
#include "tests/support/sctp_packet.h"
#include "tests/support/socket_address.h"

namespace svcmap::testing {

namespace {

// The server stops reading from a connection while the connection has this many unsent bytes.
constexpr size_t kMaxPending = 1 << 20;

void RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EchoServer>> EchoServer::Start(const NetNs& netns) {
  RaiseFileLimit();
  std::unique_ptr<EchoServer> server(new EchoServer(netns));
  server->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  server->stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = server->stop_.get();
  if (::epoll_ctl(server->epoll_.get(), EPOLL_CTL_ADD, server->stop_.get(), &event) != 0) {
    return absl::ErrnoToStatus(errno, "epoll");
  }
  // A socket stays in the namespace in which it was created, and an accepted socket uses its
  // listener's namespace. Therefore, the server's thread need not enter the namespace.
  server->thread_ = std::thread([raw = server.get()] { raw->Loop(); });
  return server;
}

absl::StatusOr<std::unique_ptr<EchoServer>> EchoServer::StartAll(const NetNs& netns,
                                                                 const std::string& v4,
                                                                 const std::string& v6,
                                                                 uint16_t port,
                                                                 const std::string& name) {
  absl::StatusOr<std::unique_ptr<EchoServer>> server = Start(netns);
  if (!server.ok()) return server;
  std::vector<Binding> bindings;
  for (Protocol protocol : {Protocol::kTcp, Protocol::kUdp, Protocol::kSctp}) {
    bindings.push_back({protocol, v4, port, name});
    bindings.push_back({protocol, v6, port, name});
  }
  absl::Status status = (*server)->Listen(bindings);
  if (!status.ok()) return status;
  return server;
}

EchoServer::~EchoServer() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

absl::Status EchoServer::Listen(const Binding& binding) {
  return Listen(std::vector<Binding>{binding});
}

absl::Status EchoServer::Listen(const std::vector<Binding>& bindings) {
  return netns_.Run([&]() -> absl::Status {
    for (const Binding& binding : bindings) {
      const absl::Status status = ListenHere(binding);
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("listen on ", binding.ip, " ", binding.port, "/",
                                         ProtocolName(binding.protocol), ": ", status.message()));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status EchoServer::ListenHere(const Binding& binding) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(binding.ip, binding.port);
  if (!address.ok()) return address.status();
  if (binding.protocol == Protocol::kSctp) return ListenSctp(binding, address->v6());

  const bool tcp = binding.protocol == Protocol::kTcp;
  UniqueFd fd(::socket(address->family(),
                       (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "socket");
  const int on = 1;
  if (tcp) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), address->get(), address->size()) != 0)
    return absl::ErrnoToStatus(errno, "bind");
  if (tcp && ::listen(fd.get(), 1024) != 0) return absl::ErrnoToStatus(errno, "listen");
  return Watch({tcp ? Kind::kTcpListener : Kind::kUdp, std::move(fd), binding.name, "", false});
}

absl::Status EchoServer::ListenSctp(const Binding& binding, bool v6) {
  bool open = false;
  {
    std::lock_guard lock(mutex_);
    // Normalize the address, because "fd00:0::1" and "fd00::1" are equal.
    sctp_names_[{SocketAddress::Parse(binding.ip, 0)->ip(), binding.port}] = binding.name;
    open = std::exchange(v6 ? sctp_v6_open_ : sctp_v4_open_, true);
  }
  if (open) return absl::OkStatus();
  UniqueFd fd(
      ::socket(v6 ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_SCTP));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "raw SCTP socket");
  const int on = 1;
  const int result = v6 ? ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on))
                        : ::setsockopt(fd.get(), IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
  if (result != 0) return absl::ErrnoToStatus(errno, "packet information");
  return Watch({Kind::kSctp, std::move(fd), "", "", v6});
}

absl::Status EchoServer::Watch(Socket socket) {
  const int fd = socket.fd.get();
  std::lock_guard lock(mutex_);
  sockets_.insert_or_assign(fd, std::move(socket));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  const absl::Status status = absl::ErrnoToStatus(errno, "epoll");
  sockets_.erase(fd);
  return status;
}

void EchoServer::Loop() {
  std::vector<epoll_event> events(256);
  for (;;) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      // An earlier event of this round may have closed the descriptor, and a new socket may have
      // reused its number. Reading the new socket is harmless, because no data is pending.
      const auto found = sockets_.find(fd);
      if (found != sockets_.end()) Serve(found->second);
    }
  }
}

void EchoServer::Serve(Socket& socket) {
  switch (socket.kind) {
    case Kind::kTcpListener:
      Accept(socket);
      break;
    case Kind::kUdp:
      ServeUdp(socket);
      break;
    case Kind::kSctp:
      ServeSctp(socket);
      break;
    case Kind::kTcpConnection:
      if (!ServeConnection(socket)) sockets_.erase(socket.fd.get());
      break;
  }
}

void EchoServer::Accept(Socket& listener) {
  for (;;) {
    SocketAddress peer;
    socklen_t size = SocketAddress::kCapacity;
    UniqueFd fd(::accept4(listener.fd.get(), peer.out(), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.ok()) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      // All pending connections are accepted. If no descriptor is free, accept() also fails and the
      // caller loops, but RaiseFileLimit makes this case unlikely.
      return;
    }
    // Reset connections that are still open, so that the next test can bind the port.
    const linger reset = {1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    ++answered_;
    const int key = fd.get();
    Socket connection{Kind::kTcpConnection, std::move(fd), listener.name,
                      FormatAnswerLine(listener.name, peer.ip(), peer.port()), false};
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = key;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, key, &event) != 0) continue;
    Socket& added = sockets_.insert_or_assign(key, std::move(connection)).first->second;
    if (!ServeConnection(added)) sockets_.erase(key);
  }
}

bool EchoServer::ServeConnection(Socket& connection) {
  const int fd = connection.fd.get();
  const size_t before = connection.pending.size();
  char buffer[65536];
  if (before < kMaxPending) {
    const ssize_t count = ::recv(fd, buffer, sizeof(buffer), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) connection.pending.append(buffer, static_cast<size_t>(count));
  }
  if (!connection.pending.empty()) {
    const ssize_t sent =
        ::send(fd, connection.pending.data(), connection.pending.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) connection.pending.erase(0, static_cast<size_t>(sent));
  }
  epoll_event event = {};
  if (connection.pending.size() < kMaxPending) event.events |= EPOLLIN;
  if (!connection.pending.empty()) event.events |= EPOLLOUT;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void EchoServer::ServeUdp(Socket& socket) {
  char buffer[65536];
  for (;;) {
    SocketAddress peer;
    socklen_t size = SocketAddress::kCapacity;
    const ssize_t count = ::recvfrom(socket.fd.get(), buffer, sizeof(buffer), 0, peer.out(), &size);
    if (count < 0) return;
    std::string reply(buffer, static_cast<size_t>(count));
    if (reply == "who\n") reply = FormatAnswerLine(socket.name, peer.ip(), peer.port());
    ++answered_;
    ::sendto(socket.fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL, peer.get(), peer.size());
  }
}

// The SCTP part of EchoServer: answers INIT with INIT-ACK on raw sockets.

namespace {

union PacketInfo {
  in6_pktinfo v6;  // The largest union member is first, so that {} initializes the whole union.
  in_pktinfo v4;
};

// Returns the destination address of the packet, which is the source address of the answer.
std::string LocalIp(const PacketInfo& info, bool v6) {
  char text[INET6_ADDRSTRLEN] = "";
  if (v6) {
    ::inet_ntop(AF_INET6, &info.v6.ipi6_addr, text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET, &info.v4.ipi_addr, text, sizeof(text));
  }
  return text;
}

struct Datagram {
  std::string bytes;  // The received SCTP packet without the IP header.
  SocketAddress peer;
  PacketInfo info = {};
};

// Returns false if no packet is pending.
bool Receive(int fd, bool v6, Datagram* datagram) {
  char buffer[65536];
  alignas(cmsghdr) char control[256];
  iovec vector = {buffer, sizeof(buffer)};
  msghdr message = {};
  message.msg_name = datagram->peer.out();
  message.msg_namelen = SocketAddress::kCapacity;
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t count = ::recvmsg(fd, &message, 0);
  if (count < 0) return false;
  size_t size = static_cast<size_t>(count);
  size_t header_size = 0;
  if (!v6 && size > 0) header_size = static_cast<size_t>(buffer[0] & 0x0f) * 4;
  if (header_size > size) header_size = size;
  datagram->bytes.assign(buffer + header_size, size - header_size);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
      std::memcpy(&datagram->info.v4, CMSG_DATA(header), sizeof(in_pktinfo));
    } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
      std::memcpy(&datagram->info.v6, CMSG_DATA(header), sizeof(in6_pktinfo));
    }
  }
  return true;
}

void SendFrom(int fd, bool v6, const Datagram& received, const std::string& bytes) {
  PacketInfo info = received.info;
  size_t info_size = sizeof(info.v6);
  if (v6) {
    // Let the route select the output interface, because the packet may have arrived on another
    // interface.
    info.v6.ipi6_ifindex = 0;
  } else {
    // The kernel uses ipi_spec_dst as the source address of the answer.
    info.v4 = {0, received.info.v4.ipi_addr, {}};
    info_size = sizeof(info.v4);
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(PacketInfo))] = {};
  SocketAddress peer = received.peer;
  iovec vector = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_name = peer.out();
  message.msg_namelen = peer.size();
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(info_size);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
  header->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
  header->cmsg_len = CMSG_LEN(info_size);
  std::memcpy(CMSG_DATA(header), &info, info_size);
  ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

uint32_t RandomTag() {
  thread_local std::mt19937 generator{std::random_device{}()};
  return static_cast<uint32_t>(generator()) | 1;
}

}  // namespace

void EchoServer::ServeSctp(Socket& socket) {
  for (;;) {
    Datagram datagram;
    if (!Receive(socket.fd.get(), socket.v6, &datagram)) return;
    const absl::StatusOr<SctpPacket> packet = ParseSctpPacket(datagram.bytes);
    if (packet.status().code() == absl::StatusCode::kDataLoss) ++sctp_bad_checksums_;
    if (!packet.ok() || packet->chunk_type != kSctpInit || packet->verification_tag != 0) continue;
    const auto name =
        sctp_names_.find({LocalIp(datagram.info, socket.v6), packet->destination_port});
    if (name == sctp_names_.end()) continue;

    SctpPacket reply;
    reply.source_port = packet->destination_port;
    reply.destination_port = packet->source_port;
    reply.verification_tag = packet->initiate_tag;
    reply.chunk_type = kSctpInitAck;
    reply.initiate_tag = RandomTag();
    reply.cookie = FormatAnswerLine(name->second, datagram.peer.ip(), packet->source_port);
    ++answered_;
    SendFrom(socket.fd.get(), socket.v6, datagram, BuildSctpPacket(reply));
  }
}

}  // namespace svcmap::testing
