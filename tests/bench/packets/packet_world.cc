#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/packets/packet_world.h"
#include "tests/bench/process_figures.h"

namespace svcmap::bench {

namespace {

constexpr uint32_t kFirstSourcePort = 10000;
constexpr uint32_t kSourcePorts = 50000;
constexpr int kSources = 100;

void RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketWorld>> PacketWorld::Create() {
  RaiseFileLimit();
  std::unique_ptr<PacketWorld> world(new PacketWorld);
  if (absl::Status status = world->Build(); !status.ok()) return status;
  return world;
}

absl::Status PacketWorld::Build() {
  auto topology = testing::Topology::Create();
  if (!topology.ok()) return topology.status();
  topology_ = *std::move(topology);
  const auto pods = topology_->AddLocalPod("pods");
  if (!pods.ok()) return pods.status();
  const auto client = topology_->AddLocalPod("client");
  if (!client.ok()) return client.status();
  client_ = *client;

  for (const char* prefix : kEndpointPrefixes) {
    if (absl::Status status = topology_->AddPrefix(**pods, prefix); !status.ok()) return status;
  }
  absl::Status status = topology_->AddPrefix(*client_, "10.244.1.128/25");
  if (!status.ok()) return status;
  for (int i = 1; i <= kSources; ++i) {
    const auto source = testing::SocketAddress::Parse(absl::StrCat("10.244.1.", 128 + i), 0);
    if (!source.ok()) return source.status();
    sources_.push_back(*source);
  }

  status = (*pods)->netns().WriteSysctl("net/core/somaxconn", "65535");
  if (!status.ok()) return status;
  auto server = PodServer::Start((*pods)->netns(), kPodPort, cpus_.server);
  if (!server.ok()) return server.status();
  pods_ = *std::move(server);
  return absl::OkStatus();
}

const testing::SocketAddress& PacketWorld::NextSource() {
  testing::SocketAddress& source = sources_[next_source_ / kSourcePorts % sources_.size()];
  const auto port = static_cast<uint16_t>(kFirstSourcePort + next_source_++ % kSourcePorts);
  reinterpret_cast<sockaddr_in*>(source.out())->sin_port = htons(port);
  return source;
}

absl::Status PacketWorld::ForgetFlows() { return testing::FlushConntrack(node()); }

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

namespace {

// Number of flows after which the connection tracking table is flushed. The table has room for at
// least 65,536 entries, so the table does not overflow.
constexpr int kFlowsBetweenFlushes = 20000;
constexpr int kWarmUp = 200;
constexpr std::chrono::seconds kWarmUpLimit{1};

int64_t Nanoseconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

int64_t After(std::chrono::nanoseconds duration) { return Nanoseconds() + duration.count(); }

UniqueFd BoundSocket(const FlowTarget& target, int type, const testing::SocketAddress& source) {
  UniqueFd fd(::socket(target.destination.family(), type | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), source.get(), source.size()) != 0) fd.Close();
  return fd;
}

bool IsConnected(int fd, const FlowTarget& target) {
  return ::connect(fd, target.destination.get(), target.destination.size()) == 0;
}

UniqueFd TcpSocket(const FlowTarget& target, const testing::SocketAddress& source) {
  UniqueFd fd = BoundSocket(target, SOCK_STREAM, source);
  const linger reset = {1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  const timeval patience = {kFlowPatience.count() / 1000, kFlowPatience.count() % 1000 * 1000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  return fd;
}

// Returns the duration of connect() in nanoseconds, or a negative value on failure.
int64_t TimeConnect(PacketWorld& world, const FlowTarget& target) {
  const UniqueFd fd = TcpSocket(target, world.NextSource());
  const int64_t begin = Nanoseconds();
  const bool connected = IsConnected(fd.get(), target);
  const int64_t end = Nanoseconds();
  return connected ? end - begin : -1;
}

int64_t TimeDatagram(PacketWorld& world, const FlowTarget& target) {
  const bool spin = world.cpus().client >= 0;
  const UniqueFd fd = BoundSocket(target, SOCK_DGRAM | SOCK_NONBLOCK, world.NextSource());
  if (!IsConnected(fd.get(), target)) return -1;
  char byte = 'a';
  const int64_t begin = Nanoseconds();
  if (::send(fd.get(), &byte, 1, MSG_NOSIGNAL) != 1) return -1;
  const int64_t deadline = begin + std::chrono::nanoseconds(kFlowPatience).count();
  while (Nanoseconds() < deadline) {
    if (::recv(fd.get(), &byte, 1, 0) == 1) return Nanoseconds() - begin;
    if (errno != EAGAIN) return -1;
    pollfd wait = {fd.get(), POLLIN, 0};
    if (!spin) ::poll(&wait, 1, static_cast<int>(kFlowPatience.count()));
  }
  return -1;
}

Latencies MeasureSome(PacketWorld& world, const FlowTarget& target, int count, int64_t deadline,
                      Latencies latencies) {
  for (int i = 0; i < count && Nanoseconds() < deadline; ++i) {
    const int64_t took = target.protocol == proxy::Protocol::kTcp ? TimeConnect(world, target)
                                                                  : TimeDatagram(world, target);
    if (took < 0) {
      ++latencies.failed;
    } else {
      latencies.microseconds.push_back(static_cast<double>(took) / 1000);
    }
  }
  return latencies;
}

// Runs `fn` in the client's network namespace and on the client's CPU.
template <typename Fn>
auto RunClient(PacketWorld& world, const Fn& fn) {
  return world.client().Run([&] {
    PinThread(world.cpus().client);
    return fn();
  });
}

}  // namespace

absl::StatusOr<Latencies> MeasureFirstPackets(PacketWorld& world, const FlowTarget& target,
                                              int count) {
  if (target.protocol == proxy::Protocol::kSctp) {
    return absl::UnimplementedError("first packets of SCTP");
  }
  const SpinningPods spinning(world);
  const int64_t deadline = After(kSeriesLimit);
  RunClient(world, [&] { return MeasureSome(world, target, kWarmUp, After(kWarmUpLimit), {}); });
  Latencies latencies;
  for (int left = count; left > 0 && Nanoseconds() < deadline; left -= kFlowsBetweenFlushes) {
    if (absl::Status forgot = world.ForgetFlows(); !forgot.ok()) return forgot;
    latencies = RunClient(world, [&] {
      return MeasureSome(world, target, std::min(left, kFlowsBetweenFlushes), deadline,
                         std::move(latencies));
    });
  }
  return latencies;
}

absl::StatusOr<ConnectionCount> CountConnections(PacketWorld& world, const FlowTarget& target,
                                                 std::chrono::duration<double> duration) {
  const SpinningPods spinning(world);
  const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  ConnectionCount count;
  int64_t used = 0;
  const auto connect_some = [&] {
    MeasureSome(world, target, kWarmUp, After(kWarmUpLimit), {});
    const int64_t begin = Nanoseconds();
    int64_t now = begin;
    for (int i = 0; i < kFlowsBetweenFlushes && used + now - begin < limit; ++i) {
      const UniqueFd fd = TcpSocket(target, world.NextSource());
      ++(IsConnected(fd.get(), target) ? count.made : count.failed);
      now = Nanoseconds();
    }
    used += now - begin;
  };
  while (used < limit) {
    if (absl::Status forgot = world.ForgetFlows(); !forgot.ok()) return forgot;
    RunClient(world, connect_some);
  }
  count.seconds = static_cast<double>(used) / 1e9;
  return count;
}

}  // namespace svcmap::bench
