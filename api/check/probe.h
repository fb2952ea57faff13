// Opens one connection to each of a list of addresses, at a bounded rate, in any network namespace.
// Also reads the reverse path filter (net.ipv4.conf.*.rp_filter) of this network namespace.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/check/target.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

// The network namespace from which `svcmapctl check` connects.
class Place {
 public:
  static absl::StatusOr<Place> Own();  // The namespace of this process.
  // A name in /run/netns, or a path that contains a slash.
  static absl::StatusOr<Place> Named(const std::string& name);
  static absl::StatusOr<Place> OfProcess(pid_t pid);

  // True if this is the namespace of this process.
  bool is_own() const { return is_own_; }

  // Runs `work` in a new thread inside the namespace. Requires CAP_SYS_ADMIN unless is_own().
  absl::Status Run(const std::function<void()>& work) const;

 private:
  static absl::StatusOr<Place> Open(const std::string& path);

  UniqueFd fd_;
  bool is_own_ = true;
};

// Returns the value of `name` in the group "TcpExt" of a page in the format of /proc/net/netstat,
// or 0 if the page does not contain the counter. Pure function.
uint64_t NetstatCounter(std::string_view page, std::string_view name);

// Returns the number of packets that the reverse path filter has dropped.
uint64_t RpFilterDrops();

// Returns the interfaces other than lo with a strict filter (1), sorted by name.
std::vector<std::string> StrictInterfaces();

enum class Observation : uint8_t {
  kConnected,    // TCP, SCTP: the connection was established.
  kAnswered,     // UDP: a datagram arrived.
  kSilent,       // No answer before the timeout.
  kRefused,      // ECONNREFUSED: TCP reset or ICMP port unreachable.
  kUnreachable,  // Another ICMP error, or no route.
  kBlocked,      // EPERM: a rule on this host rejected the packet.
  kNotChecked,   // No packet was sent. `detail` contains the reason.
};

struct ProbeResult {
  Observation observation = Observation::kNotChecked;
  std::string detail;  // Error message, or empty.
};

struct ProbeLimits {
  double per_second = 100;
  // Time to wait for each answer. If an ICMP error arrives while the socket is still being
  // connected, the kernel reports the error only after it has sent the SYN again, which takes 1 s.
  std::chrono::milliseconds timeout{2000};
};

// Returns one result for each target. Establishes TCP connections and resets them immediately, so
// that no sockets remain in the TIME_WAIT state. Sends one datagram to each UDP port.
absl::StatusOr<std::vector<ProbeResult>> RunProbes(const Place& place,
                                                   const std::vector<CheckTarget>& targets,
                                                   const ProbeLimits& limits);

// Returns the source address that the kernel selects for each target, or nullopt if the namespace
// has no route to the target. Sends no packets.
absl::StatusOr<std::vector<std::optional<IpAddress>>> SourceAddresses(
    const Place& place, const std::vector<CheckTarget>& targets);

}  // namespace svcmap::api
