// The kernel's receive error counters of one namespace, from /proc/net/snmp and snmp6: a broken
// checksum after translation shows up here and nowhere else. Read before and after, then look at
// the difference. SCTP has no kernel counters here; EchoServer::sctp_bad_checksums() and Ask()
// check its CRC32c. A plain value.
#ifndef SVCMAP_TESTS_SUPPORT_ERROR_COUNTERS_H_
#define SVCMAP_TESTS_SUPPORT_ERROR_COUNTERS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct ErrorCounters {
  // Tcp, Udp and Icmp; TCP counts both families together.
  int64_t tcp_in_errors = 0;
  int64_t tcp_bad_checksums = 0;
  int64_t udp_in_errors = 0;  // Includes full receive buffers.
  int64_t udp_bad_checksums = 0;
  int64_t udp6_in_errors = 0;
  int64_t udp6_bad_checksums = 0;
  int64_t icmp_in_errors = 0;  // Includes ICMP errors that came too late for their socket.
  int64_t icmp_bad_checksums = 0;
  int64_t icmp6_in_errors = 0;
  int64_t icmp6_bad_checksums = 0;

  int64_t bad_checksums() const {
    return tcp_bad_checksums + udp_bad_checksums + udp6_bad_checksums + icmp_bad_checksums +
           icmp6_bad_checksums;
  }
  int64_t in_errors() const {
    return tcp_in_errors + udp_in_errors + udp6_in_errors + icmp_in_errors + icmp6_in_errors;
  }
  std::string ToString() const;  // Only what is not 0.
  bool operator==(const ErrorCounters&) const = default;
};

ErrorCounters operator-(const ErrorCounters& after, const ErrorCounters& before);
std::ostream& operator<<(std::ostream& out, const ErrorCounters& counters);

absl::StatusOr<ErrorCounters> ReadErrorCounters(const NetNs& netns);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_ERROR_COUNTERS_H_
