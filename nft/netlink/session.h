// Sends requests and batches to nf_tables one at a time and receives the responses. After a timeout
// or a possible loss, the session stops waiting. The next request uses a new socket, so that a late
// response is not mistaken for the response to another request.
//
// Sockets are opened in the network namespace of the thread that called Open. Only one thread may
// call at a time.
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
  // The kernel processes a message before send returns, so responses are normally available
  // immediately.
  std::chrono::milliseconds answer_timeout{5000};
  // Called with the port id of each socket before anything is sent from the socket.
  std::function<void(uint32_t)> on_port = {};
  // Maximum number of attempts of a dump that is interrupted by commits of other processes. Pauses
  // between attempts are up to 20 ms.
  int dump_attempts = 100;
  SocketFaults* faults = nullptr;
};

class Session {
 public:
  // Opens a session. Calls `on_port`, if set, once before it returns.
  static absl::StatusOr<Session> Open(SessionOptions options);

  // Returns the last sequence number in use. The session never reuses a sequence number.
  uint32_t sequence() const { return sequence_; }
  void SkipTo(uint32_t sequence) { sequence_ = sequence; }

  // Writes the header of an nf_tables request with the next sequence number to `buffer`. The caller
  // appends attributes.
  nlmsghdr* Prepare(uint8_t* buffer, uint16_t type, uint8_t family, uint16_t flags);

  // If Send fails, nothing reached the kernel.
  absl::Status Send(std::span<const uint8_t> bytes);

  // Returns the next datagram, which is never empty, or kDeadlineExceeded after the timeout.
  absl::StatusOr<std::span<const uint8_t>> Receive();
  // Returns a datagram that is already available, or an empty span.
  absl::StatusOr<std::span<const uint8_t>> Poll();

  // Makes the next Send use a new socket. Called automatically after a failed Receive or Poll.
  void Renew() { stale_ = true; }

  // Sends one request and calls on_message for each response. Returns at the end of a dump or after
  // a requested acknowledgement. For other requests, returns after the first response. Returns
  // kUnavailable if a commit interrupted a dump.
  absl::Status Ask(const nlmsghdr* request, const std::function<void(const nlmsghdr*)>& on_message);

  // Returns nf_tables' generation id. The id changes when a commit starts.
  absl::StatusOr<uint32_t> Generation();
  // Waits until no commit is in progress, and returns the generation id.
  absl::StatusOr<uint32_t> SettledGeneration();
  // Calls `read` until no commit happened during the call. A transient error from `read` also
  // causes another call. Returns kUnavailable after dump_attempts calls or ten seconds. The
  // repetition is necessary because dumps do not report that a commit made them inconsistent (Linux
  // 6.18).
  absl::Status AsOfOneGeneration(const std::function<absl::Status()>& read);

 private:
  Session(SessionOptions options, NetworkNamespace netns)
      : options_(std::move(options)), netns_(std::move(netns)) {}

  absl::Status EnsureSocket();
  absl::StatusOr<std::optional<uint32_t>> RequestGeneration();

  SessionOptions options_;
  NetworkNamespace netns_;
  std::optional<Socket> socket_;
  bool stale_ = false;
  uint32_t sequence_ = 1;
};

}  // namespace svcmap::nft
