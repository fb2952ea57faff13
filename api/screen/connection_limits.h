// Limits the number of connections, in total and per peer, and the rate at which a peer opens
// connections. Each connection has an entry from accept() to close(). Thread-safe.
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
#include "api/limits/token_bucket.h"

namespace svcmap::api {

// Reason why a connection was rejected or closed, which is also a label of metrics.
enum class Rejection {
  kTotalLimit,
  kPeerLimit,
  kRateLimit,
  kMadeRoom,  // Closed at a limit, so that a newer connection could be admitted.
  kGreetingTimeout,
  kHandshakeFailed,
  kNotHttp2,
  kTooManyStreams,
  kRequestsTooLarge,
  kTooManyResets,
  kTooManyFrames,
  kHeaderBlockTooLarge,
  kResponsesNotRead,
};
inline constexpr int kRejections = static_cast<int>(Rejection::kResponsesNotRead) + 1;
const char* NameOf(Rejection rejection);  // "peer-limit"

struct ConnectionLimitOptions {
  uint32_t max_connections = 64;
  uint32_t max_connections_per_peer = 32;
  // Maximum number of connections above max_connections, for clients whose TLS handshake is not
  // complete.
  uint32_t max_handshakes = 16;
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
    // Peer of the connection: the address until the TLS handshake is complete, and then the name in
    // the certificate.
    std::string key = {};
    std::optional<Role> role = {};  // Nullopt until the TLS handshake is complete.
    bool greeted = false;
    // True if the connection is being closed so that a newer connection can be admitted. Such a
    // connection no longer counts towards the limits.
    bool made_room = false;
    int fd = -1;
  };
  using Handle = std::list<Entry>::iterator;

  explicit ConnectionLimits(const ConnectionLimitOptions& options) : options_(options) {}

  // Call Admit before reading from the connection `fd`. Returns a reason if the connection is
  // rejected. `role` is nullopt before a TLS handshake.
  // At the limit per peer, Admit shuts down the oldest connection of the peer that has not sent the
  // HTTP/2 preface.
  // At the total limit, Admit shuts down the oldest connection that has not sent the HTTP/2 preface
  // or has a lower role. Admit accepts up to `max_handshakes` additional connections with an
  // unknown role.
  std::optional<Rejection> Admit(const std::string& key, std::optional<Role> role, int fd,
                                 Clock::time_point now, Handle& handle);
  // Call Identify after the TLS handshake. Applies the limits per peer to the `name` in the
  // certificate, and the total limit to `role`. Afterwards, the connection no longer counts towards
  // the limit of the client's address.
  std::optional<Rejection> Identify(Handle handle, const std::string& name, Role role,
                                    Clock::time_point now);
  // Call Greeted after the client has sent the HTTP/2 preface.
  void Greeted(Handle handle);
  // Call Penalize when the peer has exceeded a limit.
  void Penalize(Handle handle, Clock::time_point now);
  // Call Remove before the descriptor is closed. Returns true if the connection was shut down so
  // that a newer connection could be admitted.
  bool Remove(Handle handle);

  size_t connections() const { return count_; }

 private:
  // Returns the priority of a connection. At the total limit, connections with priority 0 are
  // closed first.
  static int Weight(const Entry& entry);
  TokenBucket& BucketOf(const std::string& key, Clock::time_point now);
  // These methods return false if there is no room for another connection.
  bool MakeRoom(Role role);
  bool MakeRoomOfPeer(const std::string& key);
  bool MakeRoomForHandshake();
  bool Evict(Entry* entry);
  void Count(const Entry& entry, int by);

  const ConnectionLimitOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // In order of arrival.
  size_t handshakes_ = 0;     // Number of connections in `count_` with an unknown role.
  std::map<std::string, uint32_t> of_key_;
  std::map<std::string, TokenBucket> buckets_;  // At most kMaxBuckets buckets.
};

}  // namespace svcmap::api
