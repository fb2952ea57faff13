// Opens one connection to each of a list of addresses, at a bounded rate.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/check/place.h"
#include "api/check/target.h"

namespace svcmap::api {

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
