// Records stale handshakes (stale_connections.h), and decides when they are deleted: when two dumps
// at least one second apart contain them, or immediately if the client's next retry would reach
// another Service (docs/decisions/0022).
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/conntrack/endpoint_events.h"

namespace svcmap::proxy {

class HandshakeBook {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Maximum number of recorded handshakes. Further handshakes are recorded in a later round.
  static constexpr size_t kMaxHandshakes = 65'536;
  // How long an address counts as a new endpoint address.
  static constexpr std::chrono::seconds kNew{30};

  // A handshake is deleted `wait` after it was listed first. Rounds start at least `wait` apart.
  // Without changes, the delay before each further round grows, up to `last_wait`.
  HandshakeBook(std::chrono::milliseconds wait, std::chrono::milliseconds last_wait)
      : wait_(wait), last_wait_(last_wait) {}

  // Returns true if the changes require a round that no earlier call has required.
  bool Update(const EndpointChanges& changes, Time now);
  // Must be called if handshakes may have become stale.
  void Check() { check_ = true; }
  // Returns the time when a round is due, or nullopt.
  std::optional<Time> due_at() const;

  // Starts a round if one is due at `now`. A round lists all handshakes once. Call Finish after all
  // flows were listed, or Return if the round failed.
  bool Start(Time now);
  // Recorded handshakes that are deleted in this round if they are still stale and unreplied.
  std::vector<nft::Flow> Old() const;
  // Returns true if the stale handshake must be deleted immediately. `service` is the Service that
  // its destination belongs to, or kNoService.
  bool IsReused(const nft::Flow& flow, ServiceHash service, Time now) const;
  // Records a stale handshake that was listed at `now` and is not deleted in this round.
  void Record(const nft::Flow& flow, Time now);
  void Finish();
  void Return();

 private:
  struct Entry {
    nft::Flow flow;
    Time since;  // When the handshake was listed first.
  };
  using Entries = absl::flat_hash_map<uint32_t, Entry>;  // By id.

  const std::chrono::milliseconds wait_, last_wait_;
  bool check_ = false;
  std::chrono::milliseconds delay_ = wait_;
  Time started_ = Time::min();  // Start of the last round.
  Entries entries_;             // Handshakes that were recorded before this round.
  Entries listed_;              // Handshakes that were recorded in this round.
  EndpointEvents<IpAddress> added_;
};

}  // namespace svcmap::proxy
