// A conversation with nf_tables: one request or batch at a time and its answers. An answer that
// does not come in time, or may be lost, is waited for no longer: the next request goes over a
// fresh socket, so that it is never taken for an answer to something else.
//
// Sockets are opened in the network namespace of the thread that called Open. One thread at a time.
#pragma once

#include <libmnl/libmnl.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "nft/netlink/network_namespace.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

struct SessionOptions {
  // The kernel works off what it is sent before send returns, so answers are normally there.
  std::chrono::milliseconds answer_timeout{5000};
  // Gets the port id of each socket before anything is sent from it.
  std::function<void(uint32_t)> on_port = {};
  // How often a dump that commits of others disturb is tried, with pauses of up to 20 ms in
  // between.
  int dump_attempts = 100;
  SocketFaults* faults = nullptr;
};

class Session {
 public:
  // With an `on_port` that has been called once when it returns.
  static absl::StatusOr<Session> Open(SessionOptions options);

  // Sequence numbers of a session are never used again.
  uint32_t sequence() const { return sequence_; }
  void SkipTo(uint32_t sequence) { sequence_ = sequence; }

  // A request to nf_tables with the next sequence number, in `buffer`; attributes follow.
  nlmsghdr* Prepare(uint8_t* buffer, uint16_t type, uint8_t family, uint16_t flags);

  // What cannot be sent never reached the kernel.
  absl::Status Send(std::span<const uint8_t> bytes);

  // The next datagram, never an empty one: kDeadlineExceeded if none comes in time.
  absl::StatusOr<std::span<const uint8_t>> Receive();
  // What is there already; empty if there is nothing.
  absl::StatusOr<std::span<const uint8_t>> Poll();

  // The next Send goes over a fresh socket. Happens by itself after a failed Receive or Poll.
  void Renew() { stale_ = true; }

  // Sends one request and calls on_message for each answer: until the end of a dump, until the
  // acknowledgement if it was asked for, else for the only one. kUnavailable when a commit
  // disturbed a dump.
  absl::Status Ask(const nlmsghdr* request, const std::function<void(const nlmsghdr*)>& on_message);

  // nf_tables' generation id. It moves when a commit starts.
  absl::StatusOr<uint32_t> Generation();
  // The same at a moment when no commit is under way.
  absl::StatusOr<uint32_t> SettledGeneration();
  // Calls `read` until no commit came in between; a passing error from it has the same effect. Not
  // more than dump_attempts times, nor longer than ten seconds: then kUnavailable. Dumps by
  // themselves do not tell when a commit has made them wrong (Linux 6.18).
  absl::Status AsOfOneGeneration(const std::function<absl::Status()>& read);

 private:
  Session(SessionOptions options, NetworkNamespace netns)
      : options_(std::move(options)), netns_(std::move(netns)) {}

  absl::Status EnsureSocket();
  absl::StatusOr<std::optional<uint32_t>> AskGeneration();

  SessionOptions options_;
  NetworkNamespace netns_;
  std::optional<Socket> socket_;
  bool stale_ = false;
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::nft
