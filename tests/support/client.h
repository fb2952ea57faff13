// Sends requests from a namespace to a server, which answers with the server's name. Every call
// opens a new socket with a new source port, unless the request specifies a source port.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/netns.h"

namespace svcmap::testing {

enum class Protocol { kTcp, kUdp, kSctp };
inline constexpr Protocol kProtocols[] = {Protocol::kTcp, Protocol::kUdp, Protocol::kSctp};

// Returns the name as nft spells it, for example "tcp".
const char* ProtocolName(Protocol protocol);

enum class Outcome {
  kAnswered,  // `server` answered and reported the client's source address.
  kRejected,  // Rejected by a TCP reset, an ICMP "port unreachable" error, or an SCTP ABORT.
  kTimedOut,  // No answer, for example after a drop.
  kOther,     // Any other result, which `detail` describes.
};

// The result of one attempt to reach a server.
struct Answer {
  Outcome outcome = Outcome::kOther;
  std::string server;
  std::string seen_ip;
  uint16_t seen_port = 0;

  bool tcp = false;  // True if the attempt was a TCP connection.

  // The type of the ICMP error that caused the outcome, or -1 without an ICMP error.
  int icmp_type = -1;
  int icmp_code = -1;
  std::string icmp_from;

  int send_error = 0;  // errno of the send call. 0 if the sending host accepted the packet.
  std::string detail;  // Human-readable description, for example the text of errno.

  // Returns true for "port unreachable" (ICMPv4 3/3, ICMPv6 1/4).
  bool PortUnreachable() const {
    return (icmp_type == 3 && icmp_code == 3) || (icmp_type == 1 && icmp_code == 4);
  }
  // Returns true for the response of svcmap's rules to a rejected packet (S-100): a reset for TCP,
  // "port unreachable" for other protocols.
  bool RejectedByRules() const {
    return outcome == Outcome::kRejected && (tcp ? icmp_type == -1 : PortUnreachable());
  }
  std::string ToString() const;
};

std::ostream& operator<<(std::ostream& out, Outcome outcome);
std::ostream& operator<<(std::ostream& out, const Answer& answer);

// Format and parse the line that each test server sends as its answer: "NAME SOURCE_IP
// SOURCE_PORT\n". The parser returns false for any other line.
std::string FormatAnswerLine(const std::string& server, const std::string& ip, uint16_t port);
bool ParseAnswerLine(const std::string& line, Answer* answer);

struct Request {
  Protocol protocol = Protocol::kTcp;
  std::string destination = {};  // An IPv4 or IPv6 address.
  uint16_t port = 0;             // Destination port. Ignored by Ping.
  std::string source = {};       // Source address. If empty, the kernel selects the source address.
  uint16_t source_port = 0;      // If the source port is 0, each request uses a different port.
  // If the request is answered, this timeout only limits the duration of a hang.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
};

// For TCP, connects, reads the line and resets the connection to avoid TIME_WAIT. For UDP, sends
// one datagram. For SCTP, sends one INIT on a raw socket and never completes the association. The
// kernel retransmits only TCP SYNs.
//
// Sending a UDP, SCTP or ICMP packet fails with EPERM if the output hook of the client's host drops
// or rejects the packet. An ICMP error follows a reject, but not a drop. The result is kRejected
// after a reject, and kTimedOut with EPERM in `detail` after a drop.
Answer Ask(const NetNs& netns, const Request& request);

// Sends all requests in order, up to `parallel` at a time. Returns the answers in the order of the
// requests.
std::vector<Answer> AskAll(const NetNs& netns, const std::vector<Request>& requests,
                           int parallel = 1);

// Sends an ICMP echo request. `source_port` is the identifier, or 0 for a random identifier. A
// kAnswered result contains no server name, and kRejected means an ICMP "port unreachable" error.
Answer Ping(const NetNs& netns, const Request& request);

struct Tally {
  std::map<std::string, int> by_server;
  int answered = 0;
  int rejected = 0;
  int timed_out = 0;
  int other = 0;
  Answer first_failure;  // The first failure, if any.
  std::string ToString() const;
};

// Sends `count` requests sequentially in one thread, about 10,000 per second.
Tally AskMany(const NetNs& netns, const Request& request, int count);

}  // namespace svcmap::testing
