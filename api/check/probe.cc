#include "api/check/probe.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/health/bind_address.h"
#include "api/process/directory.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr char kOwnPath[] = "/proc/self/ns/net";

int ReadRpFilter(const std::filesystem::path& directory) {
  int value = 0;
  std::ifstream(directory / "rp_filter") >> value;
  return value;
}

using SteadyClock = std::chrono::steady_clock;
using proxy::Protocol;

// Content of the UDP datagrams.
constexpr std::string_view kDatagram = "svcmapctl check\n";

// Limits the number of open sockets. A process can usually have 1,024 open files.
constexpr size_t kMaxOpenProbes = 500;

SocketAddress AddressOf(const CheckTarget& target) {
  return SocketAddress({target.address, target.port});
}

UniqueFd NewSocket(const CheckTarget& target) {
  const bool udp = target.protocol == Protocol::kUdp;
  return UniqueFd(socket(AddressOf(target).family(),
                         (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC,
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
  SteadyClock::time_point deadline;
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
  const SocketAddress address = AddressOf(target);
  if (connect(probe.fd.get(), address.get(), address.size()) != 0 && errno != EINPROGRESS) {
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
  const auto interval = std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>(1 / limits.per_second));
  SteadyClock::time_point next_start = SteadyClock::now();
  for (size_t next = 0; next < targets.size() || !open.empty();) {
    SteadyClock::time_point now = SteadyClock::now();
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
    SteadyClock::time_point wake = room ? next_start : SteadyClock::time_point::max();
    std::vector<pollfd> fds;
    for (const OpenProbe& probe : open) {
      wake = std::min(wake, probe.deadline);
      fds.push_back({.fd = probe.fd.get(),
                     .events = static_cast<short>(probe.udp ? POLLIN : POLLOUT),
                     .revents = 0});
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - now);
    poll(fds.data(), fds.size(), static_cast<int>(std::max<int64_t>(wait.count(), 0)));
    now = SteadyClock::now();
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
  const SocketAddress address = AddressOf(udp);
  if (!fd.ok() || connect(fd.get(), address.get(), address.size()) != 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return std::nullopt;
  return IpAddressOf(reinterpret_cast<const sockaddr*>(&own));
}

}  // namespace

absl::StatusOr<Place> Place::Own() { return Open(kOwnPath); }

absl::StatusOr<Place> Place::Named(const std::string& name) {
  absl::StatusOr<Place> place =
      Open(name.find('/') == std::string::npos ? "/run/netns/" + name : name);
  if (!place.ok()) return Annotate(place.status(), "--netns: Invalid value: " + Quote(name));
  return place;
}

absl::StatusOr<Place> Place::OfProcess(pid_t pid) {
  absl::StatusOr<Place> place = Open(absl::StrCat("/proc/", pid, "/ns/net"));
  if (!place.ok()) return Annotate(place.status(), absl::StrCat("--pid: Invalid value: ", pid));
  return place;
}

absl::StatusOr<Place> Place::Open(const std::string& path) {
  const std::string what = absl::StrCat("open network namespace ", path);
  Place place;
  place.fd_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!place.fd_.ok()) return ErrnoStatus(errno, what);
  struct stat opened = {}, own = {};
  if (fstat(place.fd_.get(), &opened) != 0) return ErrnoStatus(errno, what);
  if (ioctl(place.fd_.get(), NS_GET_NSTYPE) != CLONE_NEWNET) {
    return absl::InvalidArgumentError(absl::StrCat(path, " must be a network namespace"));
  }
  if (stat(kOwnPath, &own) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", kOwnPath));
  place.is_own_ = opened.st_dev == own.st_dev && opened.st_ino == own.st_ino;
  return place;
}

absl::Status Place::Run(const std::function<void()>& work) const {
  absl::Status status;
  std::thread([&] {
    // setns affects only this thread, so gRPC's threads stay in the namespace of the process.
    if (!is_own_ && setns(fd_.get(), CLONE_NEWNET) != 0) {
      status = ErrnoStatus(errno, "enter the network namespace");
      return;
    }
    work();
  }).join();
  return status;
}

uint64_t NetstatCounter(std::string_view page, std::string_view name) {
  std::istringstream lines{std::string(page)};
  // The page has pairs of lines: names, then values.
  for (std::string names, values; std::getline(lines, names) && std::getline(lines, values);) {
    if (!names.starts_with("TcpExt:")) continue;
    std::istringstream keys(names), numbers(values);
    std::string key, number;
    while (keys >> key && numbers >> number) {
      if (key == name) return std::strtoull(number.c_str(), nullptr, 10);
    }
  }
  return 0;
}

uint64_t RpFilterDrops() {
  std::ostringstream page;
  page << std::ifstream("/proc/self/net/netstat").rdbuf();
  return NetstatCounter(page.str(), "IPReversePathFilter");
}

std::vector<std::string> StrictInterfaces() {
  const std::filesystem::path root = "/proc/sys/net/ipv4/conf";
  const int all = ReadRpFilter(root / "all");
  std::vector<std::string> names;
  for (const std::filesystem::path& path : EntriesOf(root)) {
    const std::string name = path.filename();
    if (name == "all" || name == "default" || name == "lo") continue;
    // The kernel uses the larger value of "all" and of the interface.
    if (std::max(all, ReadRpFilter(path)) == 1) names.push_back(name);
  }
  return names;
}

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
