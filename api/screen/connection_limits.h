// How many connections there may be, in total and of each peer, and how fast a peer may open them.
// Every connection has an entry from accept() until it is closed. Any thread.
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

// Why a connection was rejected or closed; a label of the metrics.
enum class Rejection {
  kTotalLimit,
  kPeerLimit,
  kRateLimit,
  kMadeRoom,  // Closed for a newer connection at one of the two limits.
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
  // New connections of one peer; at least twice max_connections_per_peer at once.
  double burst = 200, per_second = 50;
  // Each offence counts as so many new connections.
  double offence_cost = 50;
};

class ConnectionLimits {
 public:
  using Clock = TokenBucket::Clock;

  struct Entry {
    std::string key = {};       // Address or uid.
    std::string identity = {};  // Of the certificate, from Identify() on; counted like a key.
    std::optional<Role> role = {};
    bool greeted = false;
    bool made_room = false;  // Is being closed for a newer connection; not counted.
    int fd = -1;
  };
  using Handle = std::list<Entry>::iterator;

  explicit ConnectionLimits(const ConnectionLimitOptions& options) : options_(options) {}

  // Before anything is read from the connection `fd`. `role` is unknown before a TLS handshake. At
  // the limit of the peer, shuts down the oldest connection of the peer without a greeting. At the
  // total limit, shuts down the oldest connection without a greeting, or of a lower role.
  std::optional<Rejection> Admit(const std::string& key, std::optional<Role> role, int fd,
                                 Clock::time_point now, Handle& handle);
  // After the TLS handshake.
  std::optional<Rejection> Identify(Handle handle, const std::string& identity, Role role);
  // After the HTTP/2 preface.
  void Greeted(Handle handle);
  // The peer broke a limit.
  void Penalize(Handle handle, Clock::time_point now);
  bool made_room(Handle handle) const;
  void Remove(Handle handle);  // Before the descriptor is closed.

  size_t connections() const { return count_; }

 private:
  // 0 is closed first.
  static int Weight(const Entry& entry);
  TokenBucket& BucketOf(const std::string& key, Clock::time_point now);
  bool MakeRoom(std::optional<Role> role);
  bool MakeRoomOfPeer(const std::string& key);
  void Evict(Entry& entry);
  void Uncount(const Entry& entry);

  const ConnectionLimitOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // Oldest first.
  std::map<std::string, uint32_t> of_key_;
  std::map<std::string, TokenBucket> buckets_;  // Bounded: those that are full are dropped.
};

}  // namespace svcmap::api
