// The result of one attempt to reach a server.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

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

}  // namespace svcmap::testing
