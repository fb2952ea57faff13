// Sends requests and batches to nf_tables one at a time and receives the responses. After a timeout
// or a possible loss of responses, the session stops waiting. The next request uses a new socket,
// so that a late response is not mistaken for the response to another request.
//
// The session opens sockets in the network namespace of the thread that called Open. Only one
// thread may call a method at a time.
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
  // The session calls `on_port` with the port id of each socket before the socket is used.
  std::function<void(uint32_t)> on_port = {};
  // Maximum number of dump attempts if commits by other processes interrupt the dump. The pause
  // between two attempts is at most 20 ms.
  int dump_attempts = 100;
  SocketFaults* faults = nullptr;
};

class Session {
 public:
  // Opens a session. Open calls `on_port`, if set, once before returning.
  static absl::StatusOr<Session> Open(SessionOptions options);

  // Returns the last sequence number in use. The session never reuses a sequence number.
  uint32_t sequence() const { return sequence_; }
  void SkipTo(uint32_t sequence) { sequence_ = sequence; }

  // Writes the header of an nf_tables request with the next sequence number to `buffer`. The caller
  // appends the attributes.
  nlmsghdr* Prepare(uint8_t* buffer, uint16_t type, uint8_t family, uint16_t flags);

  // If Send fails, the kernel has received nothing.
  absl::Status Send(std::span<const uint8_t> bytes);

  // Returns the next datagram, which is never empty, or kDeadlineExceeded after the timeout.
  absl::StatusOr<std::span<const uint8_t>> Receive();
  // Returns a datagram that is already available, or an empty span.
  absl::StatusOr<std::span<const uint8_t>> Poll();

  // Makes the next Send use a new socket. Receive and Poll call Renew after a failure.
  void Renew() { stale_ = true; }

  // Sends one request and calls on_message for each response. Ask returns at the end of a dump or
  // after a requested acknowledgement. For other requests, Ask returns after the first response.
  // Returns kUnavailable if a commit interrupted a dump.
  absl::Status Ask(const nlmsghdr* request, const std::function<void(const nlmsghdr*)>& on_message);

  // Returns nf_tables' generation id. The generation id changes when a commit starts.
  absl::StatusOr<uint32_t> Generation();
  // Waits until no commit is in progress, and returns the generation id.
  absl::StatusOr<uint32_t> SettledGeneration();
  // Calls `read`. Calls it again if it fails with a transient error, or if a commit happened during
  // the call. Returns kUnavailable after dump_attempts calls or ten seconds. The repetition is
  // necessary because the kernel does not report that a commit made a dump inconsistent (Linux
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
