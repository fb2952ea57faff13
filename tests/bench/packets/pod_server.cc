#include "tests/bench/packets/pod_server.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "nft/base/status.h"
#include "tests/bench/cpu.h"

namespace svcmap::bench {
namespace {

constexpr int kBacklog = 65535;
constexpr int kAtOnce = 256;

void Wake(int eventfd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd, &one, sizeof(one));
}

absl::StatusOr<UniqueFd> MakeBound(int type, uint16_t port) {
  UniqueFd fd(::socket(AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "socket of the pods");
  const int off = 0;  // The IPv6 socket also accepts IPv4 connections.
  ::setsockopt(fd.get(), SOL_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0) {
    return ErrnoStatus(errno, "bind of the pods");
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PodServer>> PodServer::Start(const testing::NetNs& netns,
                                                            uint16_t port, int cpu) {
  std::unique_ptr<PodServer> server(new PodServer);
  const absl::Status opened = netns.Run([&] { return server->Open(port); });
  if (!opened.ok()) return opened;
  server->thread_ = std::thread([raw = server.get(), cpu] { raw->Run(cpu); });
  return server;
}

PodServer::~PodServer() {
  stop_ = true;
  if (!thread_.joinable()) return;
  Wake(wake_.get());
  thread_.join();
}

absl::Status PodServer::Open(uint16_t port) {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto tcp = MakeBound(SOCK_STREAM, port);
  if (!tcp.ok()) return tcp.status();
  tcp_ = *std::move(tcp);
  if (::listen(tcp_.get(), kBacklog) != 0) return ErrnoStatus(errno, "listen of the pods");
  auto udp = MakeBound(SOCK_DGRAM, port);
  if (!udp.ok()) return udp.status();
  udp_ = *std::move(udp);
  // Receive the destination address of each request, because the server uses this address as the
  // source address of the reply.
  const int on = 1;
  ::setsockopt(udp_.get(), SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
  for (const int fd : {wake_.get(), tcp_.get(), udp_.get()}) {
    if (absl::Status status = Watch(fd); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PodServer::Watch(int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "epoll_ctl of the pods");
}

void PodServer::set_spinning(bool spinning) {
  spinning_ = spinning;
  Wake(wake_.get());
}

void PodServer::Run(int cpu) {
  PinThread(cpu);
  while (!stop_) {
    epoll_event events[4];
    const int count = ::epoll_wait(epoll_.get(), events, 4, spinning_ ? 0 : -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      uint64_t ignored = 0;
      if (fd == wake_.get()) [[maybe_unused]]
        const ssize_t size = ::read(fd, &ignored, sizeof(ignored));
      if (fd == tcp_.get()) TakeConnections();
      if (fd == udp_.get()) GiveBack();
    }
  }
}

void PodServer::TakeConnections() {
  for (int i = 0; i < kAtOnce; ++i) {
    UniqueFd fd(::accept4(tcp_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.ok()) return;
    taken_[next_taken_++ % taken_.size()] = std::move(fd);
  }
}

void PodServer::GiveBack() {
  for (int i = 0; i < kAtOnce; ++i) {
    char payload[64];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))];
    sockaddr_in6 from = {};
    iovec part = {payload, sizeof(payload)};
    msghdr message = {};
    message.msg_name = &from;
    message.msg_namelen = sizeof(from);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t size = ::recvmsg(udp_.get(), &message, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) continue;  // Receiving failed because an ICMP error arrived for an earlier reply.
    part.iov_len = static_cast<size_t>(size);
    if (cmsghdr* header = CMSG_FIRSTHDR(&message)) {
      in6_pktinfo info = {};
      std::memcpy(&info, CMSG_DATA(header), sizeof(info));
      info.ipi6_ifindex = 0;  // Let the routing table select the output interface of the reply.
      std::memcpy(CMSG_DATA(header), &info, sizeof(info));
    }
    ::sendmsg(udp_.get(), &message, MSG_NOSIGNAL);
  }
}

}  // namespace svcmap::bench
