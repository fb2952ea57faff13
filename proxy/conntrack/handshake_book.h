// Records stale handshakes (stale_handshakes.h), and decides when they are deleted: when they were
// listed twice, at least one second apart. So an endpoint that replies slowly to a SYN can complete
// a handshake that began before the endpoint left. A handshake with an address that has recently
// become an endpoint of another Service is deleted immediately, because the client's next retry
// would reach that Service. This does not apply if the address has also become an endpoint of the
// handshake's Service recently, because a new pod can belong to both Services.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "nft/conntrack/flow_table.h"

namespace svcmap::proxy {

// Hash of a Service's key, or kNoService.
using ServiceHash = uint64_t;
inline constexpr ServiceHash kNoService = 0;
inline ServiceHash HashOfService(const std::string& key) { return absl::HashOf(key) | 1; }

// Changes of all Services of a commit that can make handshakes stale.
struct HandshakeChanges {
  bool any = false;
  // Addresses that have become endpoints of a Service.
  std::vector<std::pair<ServiceHash, IpAddress>> added;
};

class HandshakeBook {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Maximum number of recorded handshakes. Further handshakes are recorded in a later round.
  static constexpr size_t kMaxHandshakes = 65'536;
  // Maximum number of recorded new endpoint addresses. The book forgets the oldest addresses.
  static constexpr size_t kMaxAddresses = 65'536;
  // How long an address counts as a new endpoint address.
  static constexpr std::chrono::seconds kNew{30};

  // A handshake is deleted `wait` after it was listed first. Without changes, further rounds wait
  // longer, at most `last_wait`.
  HandshakeBook(std::chrono::milliseconds wait, std::chrono::milliseconds last_wait)
      : wait_(wait), last_wait_(last_wait) {}

  void Update(const HandshakeChanges& changes, Time now);
  // Handshakes may have become stale.
  void Check() { check_ = true; }
  // Returns the time when a round is due, or nullopt.
  std::optional<Time> due_at() const;

  // One cleanup round: lists all handshakes once, and selects the handshakes to delete.
  class Round {
   public:
    bool active() const { return active_; }
    // Recorded handshakes that are deleted in this round if they are still stale and unreplied.
    const std::vector<nft::Flow>& old() const { return old_; }
    // Returns true if the flow is one of old().
    bool IsOld(const nft::Flow& flow) const;
    // Records a stale handshake that was listed at `now` and is not deleted in this round.
    void Record(const nft::Flow& flow, Time now);

   private:
    friend class HandshakeBook;
    struct Entry {
      nft::Flow flow;
      Time since;  // When the handshake was listed first.
      bool old = false;
    };
    using Entries = absl::flat_hash_map<uint32_t, Entry>;  // By id.

    bool active_ = false;
    Entries before_, after_;
    std::vector<nft::Flow> old_;
  };
  // Starts a round. The round is not active if none is due at `now`.
  Round Take(Time now);
  // Returns true if the stale handshake must be deleted immediately. `service` is the Service that
  // its destination belongs to, or kNoService.
  bool IsReused(const nft::Flow& flow, ServiceHash service, Time now) const;
  // Call Finish after all flows were listed, or Return if the round failed.
  void Finish(Round round);
  void Return(Round round);

 private:
  const std::chrono::milliseconds wait_, last_wait_;
  bool check_ = false;
  std::chrono::milliseconds delay_ = wait_;
  Round::Entries entries_;
  std::optional<Time> oldest_;  // When the oldest entry was listed first.
  struct Addition {
    ServiceHash service;
    Time time;
  };
  struct Ordered {
    Time time;
    ServiceHash service;
    IpAddress address;
  };
  absl::flat_hash_map<IpAddress, absl::InlinedVector<Addition, 1>> added_;
  std::deque<Ordered> order_;  // The same additions in order of time.
};

}  // namespace svcmap::proxy
