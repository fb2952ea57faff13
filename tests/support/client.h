// Sends requests from a namespace to a server, which answers with its name. Every call opens a new
// socket with a new source port, unless the request specifies one. Thread-safe.
#ifndef SVCMAP_TESTS_SUPPORT_CLIENT_H_
#define SVCMAP_TESTS_SUPPORT_CLIENT_H_

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
  std::string destination = {};  // IPv4 or IPv6 address.
  uint16_t port = 0;             // Ignored by Ping.
  std::string source = {};       // Empty: selected by the kernel.
  uint16_t source_port = 0;      // 0: a different port each time.
  std::chrono::milliseconds timeout = std::chrono::milliseconds(2000);
};

// TCP: connects, reads the line, resets the connection (no TIME_WAIT). UDP: one datagram. SCTP: one
// INIT on a raw socket (the association is never completed). There are no
// retransmissions, except for TCP SYNs by the kernel.
//
// A host's own UDP, SCTP and ICMP sends fail with EPERM when its output hook drops *or* rejects.
// The two still differ: after a reject an ICMP error follows (kRejected), after a drop none does
// (kTimedOut, detail says EPERM).
Answer Ask(const NetNs& netns, const Request& request);

// Sends all requests in order, up to `parallel` at a time. Returns the answers in the same order.
std::vector<Answer> AskAll(const NetNs& netns, const std::vector<Request>& requests,
                           int parallel = 1);

// ICMP echo. kAnswered has no server; kRejected is an ICMP port unreachable.
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

#endif  // SVCMAP_TESTS_SUPPORT_CLIENT_H_
