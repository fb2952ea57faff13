// Sends requests from a namespace to a server, which answers with the server's name. Every call
// opens a new socket with a new source port, unless the request specifies a source port.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/answer.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

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
