#include "api/check/probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace svcmap::api {
namespace {

using Clock = std::chrono::steady_clock;
using proxy::Protocol;

// Content of the UDP datagrams.
constexpr std::string_view kDatagram = "svcmapctl check\n";

// Limits the number of open sockets. A process can usually have 1,024 open files.
constexpr size_t kMaxOpenProbes = 500;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress Convert(const CheckTarget& target) {
  SocketAddress address;
  if (target.address.family() == Family::kIpv4) {
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(target.port);
    std::memcpy(&v4.sin_addr, target.address.bytes().data(), sizeof(v4.sin_addr));
    std::memcpy(&address.storage, &v4, sizeof(v4));
    address.size = sizeof(v4);
  } else {
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(target.port);
    std::memcpy(&v6.sin6_addr, target.address.bytes().data(), sizeof(v6.sin6_addr));
    std::memcpy(&address.storage, &v6, sizeof(v6));
    address.size = sizeof(v6);
  }
  return address;
}

UniqueFd NewSocket(const CheckTarget& target) {
  const int family = target.address.family() == Family::kIpv4 ? AF_INET : AF_INET6;
  const bool udp = target.protocol == Protocol::kUdp;
  return UniqueFd(socket(family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         target.protocol == Protocol::kSctp ? IPPROTO_SCTP : 0));
}

ProbeResult FromErrno(int error) {
  const std::string text = std::strerror(error);
  switch (error) {
    case ECONNREFUSED:
      return {Observation::kRefused, text};
    case ETIMEDOUT:
      return {Observation::kSilent, ""};
    case EPERM:
    case EACCES:
      return {Observation::kBlocked, text};
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EPROTO:
      return {Observation::kUnreachable, text};
    case EINVAL:  // Of connect() and send().
      return {Observation::kUnreachable, "a blackhole route leads to the destination"};
    default:
      return {Observation::kNotChecked, text};
  }
}

struct OpenProbe {
  size_t index = 0;
  UniqueFd fd;
  Clock::time_point deadline;
  bool udp = false;
};

// Sends the first packet. Returns the open probe, or nullopt if `result` is already known.
std::optional<OpenProbe> StartProbe(const CheckTarget& target, ProbeResult& result) {
  OpenProbe probe;
  probe.udp = target.protocol == Protocol::kUdp;
  probe.fd = NewSocket(target);
  if (!probe.fd.ok()) {
    const bool sctp = target.protocol == Protocol::kSctp;
    result = sctp && (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT)
                 ? ProbeResult{Observation::kNotChecked, "the kernel has no SCTP sockets"}
                 : ProbeResult{Observation::kNotChecked, std::strerror(errno)};
    return std::nullopt;
  }
  const SocketAddress address = Convert(target);
  if (connect(probe.fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    result = FromErrno(errno);
    return std::nullopt;
  }
  if (!probe.udp) return probe;
  if (send(probe.fd.get(), kDatagram.data(), kDatagram.size(), 0) < 0) {
    result = FromErrno(errno);
    return std::nullopt;
  }
  return probe;
}

ProbeResult FinishProbe(const OpenProbe& probe) {
  if (probe.udp) {
    char answer[1];
    if (recv(probe.fd.get(), answer, sizeof(answer), 0) >= 0) return {Observation::kAnswered, ""};
    return FromErrno(errno);
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(probe.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return FromErrno(error);
  const linger reset = {.l_onoff = 1, .l_linger = 0};
  setsockopt(probe.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  return {Observation::kConnected, ""};
}

std::vector<ProbeResult> RunHere(const std::vector<CheckTarget>& targets,
                                 const ProbeLimits& limits) {
  std::vector<ProbeResult> results(targets.size());
  std::vector<OpenProbe> open;
  const auto interval = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(1 / limits.per_second));
  Clock::time_point next_start = Clock::now();
  for (size_t next = 0; next < targets.size() || !open.empty();) {
    Clock::time_point now = Clock::now();
    const bool room = next < targets.size() && open.size() < kMaxOpenProbes;
    if (room && now >= next_start) {
      std::optional<OpenProbe> probe = StartProbe(targets[next], results[next]);
      if (probe) {
        probe->index = next;
        probe->deadline = now + limits.timeout;
        open.push_back(*std::move(probe));
      }
      next_start = now + interval;
      ++next;
      continue;
    }
    Clock::time_point wake = room ? next_start : Clock::time_point::max();
    std::vector<pollfd> fds;
    for (const OpenProbe& probe : open) {
      wake = std::min(wake, probe.deadline);
      fds.push_back({.fd = probe.fd.get(),
                     .events = static_cast<short>(probe.udp ? POLLIN : POLLOUT),
                     .revents = 0});
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - now);
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(wait.count(), 0)));
    now = Clock::now();
    for (size_t i = open.size(); i-- > 0;) {  // Backwards, because elements are removed.
      if (fds[i].revents != 0) {
        results[open[i].index] = FinishProbe(open[i]);
      } else if (now >= open[i].deadline) {
        results[open[i].index] = {Observation::kSilent, ""};
      } else {
        continue;
      }
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return results;
}

std::optional<IpAddress> SourceHere(const CheckTarget& target) {
  CheckTarget udp = target;
  udp.protocol = Protocol::kUdp;
  const UniqueFd fd = NewSocket(udp);
  const SocketAddress address = Convert(udp);
  if (!fd.ok() || connect(fd.get(), address.get(), address.size) != 0) return std::nullopt;
  SocketAddress own;
  own.size = sizeof(own.storage);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0) {
    return std::nullopt;
  }
  if (own.storage.ss_family == AF_INET) {
    return IpAddress::V4(reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_addr);
  }
  return IpAddress::V6(reinterpret_cast<const sockaddr_in6*>(&own.storage)->sin6_addr);
}

}  // namespace

absl::StatusOr<std::vector<ProbeResult>> RunProbes(const Place& place,
                                                   const std::vector<CheckTarget>& targets,
                                                   const ProbeLimits& limits) {
  std::vector<ProbeResult> results;
  const absl::Status status = place.Run([&] { results = RunHere(targets, limits); });
  if (!status.ok()) return status;
  return results;
}

absl::StatusOr<std::vector<std::optional<IpAddress>>> SourceAddresses(
    const Place& place, const std::vector<CheckTarget>& targets) {
  std::vector<std::optional<IpAddress>> sources;
  const absl::Status status = place.Run([&] {
    for (const CheckTarget& target : targets) sources.push_back(SourceHere(target));
  });
  if (!status.ok()) return status;
  return sources;
}

}  // namespace svcmap::api
