// Sends large amounts of data through a flow and back, and compares every byte. The servers are
// EchoServers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/netns.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

// An open TCP connection, for tests that change the Service while the connection is open. Not
// thread-safe. The calling thread need not be in the namespace. Closing a TcpFlow resets its
// connection.
class TcpFlow {
 public:
  // Opens a connection. Returns Unavailable with the text of the answer if the server is not
  // reachable.
  static absl::StatusOr<TcpFlow> Open(const NetNs& netns, const Request& request);

  // Returns the name of the connection's server and the source address that the server received.
  const Answer& answer() const { return answer_; }

  // Sends `bytes` pseudo-random bytes and reads the echo at the same time. Returns DataLoss with
  // the offset of the first wrong byte. DeadlineExceeded and Unavailable mean that the flow is
  // stuck or broken.
  absl::Status Exchange(size_t bytes, std::chrono::milliseconds timeout = kHangLimit);

 private:
  TcpFlow(UniqueFd fd, Answer answer) : fd_(std::move(fd)), answer_(std::move(answer)) {}
  UniqueFd fd_;
  Answer answer_;
};

// Sends `bytes` in both directions over a new TCP connection within `request.timeout`.
absl::StatusOr<Answer> BulkTcp(const NetNs& netns, const Request& request, size_t bytes);

// Sends one UDP datagram of `bytes` (at most 65,507), fragmented if needed, and receives the echo.
absl::Status BigUdp(const NetNs& netns, const Request& request, size_t bytes);

// The kernel's receive error counters of one namespace, from /proc/net/snmp and snmp6. A wrong
// checksum after address translation is visible only in these counters. Tests compare the counters
// before and after an action. The kernels of the test environment have no SCTP counters.
// EchoServer::sctp_bad_checksums() and Ask() check the CRC32c of SCTP packets.
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
