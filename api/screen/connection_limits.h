// Limits the number of connections, in total and per peer, and the rate at which a peer opens
// connections. Every connection has an entry from accept() until the connection is closed.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/access/access.h"
#include "api/screen/token_bucket.h"

namespace svcmap::api {

// Reason why a connection was rejected or closed, which is also a label of metrics.
enum class Rejection {
  kTotalLimit,
  kPeerLimit,
  kRateLimit,
  kMadeRoom,  // Closed in favor of a newer connection at one of the two limits.
  kGreetingTimeout,
  kHandshakeFailed,
  kNotHttp2,
  kTooManyStreams,
  kRequestsTooLarge,
  kTooManyResets,
  kTooManyFrames,
  kHeaderBlockTooLarge,
};
inline constexpr int kRejections = static_cast<int>(Rejection::kHeaderBlockTooLarge) + 1;
const char* NameOf(Rejection rejection);  // "peer-limit"

struct ConnectionLimitOptions {
  uint32_t max_connections = 64;
  uint32_t max_connections_per_peer = 32;
  // Rate limit for new connections of one peer. The burst is at least twice
  // max_connections_per_peer.
  double burst = 200, per_second = 50;
  // Number of rate-limit tokens that one offence costs. A new connection costs one token.
  double offence_cost = 50;
};

class ConnectionLimits {
 public:
  using Clock = TokenBucket::Clock;

  struct Entry {
    std::string key = {};  // Address or uid of the peer.
    // Identity from the certificate, set by Identify(). The limits per peer apply to `key` and
    // `identity`.
    std::string identity = {};
    std::optional<Role> role = {};
    bool greeted = false;
    // True if the connection is being closed in favor of a newer connection. A connection that is
    // being closed is not counted.
    bool made_room = false;
    int fd = -1;
  };
  using Handle = std::list<Entry>::iterator;

  explicit ConnectionLimits(const ConnectionLimitOptions& options) : options_(options) {}

  // Call Admit before reading from the connection `fd`. Returns a reason if the connection is
  // rejected. `role` is nullopt before a TLS handshake. At the limit of the peer, shuts down the
  // peer's oldest connection that has sent no HTTP/2 preface. At the total limit, shuts down the
  // oldest connection that has sent no HTTP/2 preface or has a lower role.
  std::optional<Rejection> Admit(const std::string& key, std::optional<Role> role, int fd,
                                 Clock::time_point now, Handle& handle);
  // Call Identify after the TLS handshake.
  std::optional<Rejection> Identify(Handle handle, const std::string& identity, Role role);
  // Call Greeted after the client has sent the HTTP/2 preface.
  void Greeted(Handle handle);
  // Call Penalize when the peer has exceeded a limit.
  void Penalize(Handle handle, Clock::time_point now);
  bool made_room(Handle handle) const;
  void Remove(Handle handle);  // Call before the descriptor is closed.

  size_t connections() const { return count_; }

 private:
  // Returns the weight of a connection. At the total limit, connections with weight 0 are closed
  // first.
  static int Weight(const Entry& entry);
  TokenBucket& BucketOf(const std::string& key, Clock::time_point now);
  bool MakeRoom(std::optional<Role> role);
  bool MakeRoomOfPeer(const std::string& key);
  void Evict(Entry& entry);
  void Uncount(const Entry& entry);

  const ConnectionLimitOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // Connections, oldest first.
  std::map<std::string, uint32_t> of_key_;
  std::map<std::string, TokenBucket> buckets_;  // At most kMaxBuckets buckets.
};

}  // namespace svcmap::api
