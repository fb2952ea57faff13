// The kernel's receive error counters of one namespace, from /proc/net/snmp and snmp6. A wrong
// checksum after address translation is visible only in these counters. Tests compare the counters
// before and after an action. The kernels of the test environment have no SCTP counters.
// EchoServer::sctp_bad_checksums() and Ask() check the CRC32c of SCTP packets.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct ErrorCounters {
  // The TCP counter covers both address families. TcpInErrs is not read, because it also counts a
  // SYN that a client repeats if the SYN-ACK is late.
  int64_t tcp_bad_checksums = 0;
  // UDP errors, including datagrams dropped because of full receive buffers.
  int64_t udp_in_errors = 0;
  int64_t udp_bad_checksums = 0;
  int64_t udp6_in_errors = 0;
  int64_t udp6_bad_checksums = 0;
  int64_t icmp_in_errors = 0;  // ICMP errors, including errors whose socket was already closed.
  int64_t icmp_bad_checksums = 0;
  int64_t icmp6_in_errors = 0;
  int64_t icmp6_bad_checksums = 0;

  std::string ToString() const;  // Lists only counters that are not 0.
  bool operator==(const ErrorCounters&) const = default;
};

ErrorCounters operator-(const ErrorCounters& after, const ErrorCounters& before);
std::ostream& operator<<(std::ostream& out, const ErrorCounters& counters);

absl::StatusOr<ErrorCounters> ReadErrorCounters(const NetNs& netns);

// Returns one counter: its name in snmp6, such as "Icmp6OutDestUnreachs", or the names of its line
// and column in snmp, such as "IcmpOutDestUnreachs".
absl::StatusOr<int64_t> ReadCounter(const NetNs& netns, const std::string& key);

}  // namespace svcmap::testing
