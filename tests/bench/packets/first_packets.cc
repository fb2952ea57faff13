#include "tests/bench/packets/first_packets.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::bench {
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
