// Limits the number of connections, in total and per peer, and the rate at which a peer opens
// connections. Each connection has an entry from accept() until its resources are released.
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
#include "api/limits/token_bucket.h"

namespace svcmap::api {

// Reason why a connection was rejected or closed, which is also a label of metrics.
enum class Rejection {
  kTotalLimit,
  kPeerLimit,
  kRateLimit,
  kRoleRateLimit,
  kMadeRoom,  // Closed at a limit, so that a newer connection could be admitted.
  kGreetingTimeout,
  kHandshakeFailed,
  kNotHttp2,             // No client preface, or a frame that HTTP/2 does not allow at this point.
  kTooManyStreams,       // More open streams than allowed.
  kRequestsTooLarge,     // More DATA on open streams than allowed.
  kTooManyResets,        // More RST_STREAM frames, sent or caused by the client, than allowed.
  kTooManyFrames,        // More frames that carry no data than allowed.
  kHeaderBlockTooLarge,  // A header block with too many CONTINUATION frames.
  kResponsesNotRead,
};
inline constexpr int kRejections = static_cast<int>(Rejection::kResponsesNotRead) + 1;
const char* NameOf(Rejection rejection);  // "peer-limit". The names have the order of the enum.

struct ConnectionLimitOptions {
  uint32_t max_connections = 64;
  uint32_t max_connections_per_peer = 32;
  // Maximum number of connections above max_connections, for clients whose TLS handshake is not
  // complete.
  uint32_t max_handshakes = 16;
  // Minimum age of an address's only handshake before a newer handshake can replace it.
  std::chrono::milliseconds handshake_grace{100};
  // Maximum number of connections that were shut down to make room for newer connections, but are
  // not closed yet. The limit does not apply if the role of the newer connection is known to be
  // writer. The role of a TLS client is not known before its handshake is complete.
  uint32_t max_shut_down = 64;
  // Rate limit for new connections of one peer. The burst is at least twice
  // max_connections_per_peer.
  double burst = 200, per_second = 50;
  // Rate limit for new connections of all readers together, and of all clients without a role
  // together. Each new connection costs gRPC's threads time that a controller's calls wait for.
  double role_burst = 400, role_per_second = 200;
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
    int fd = -1;  // -1 after Close.
    Clock::time_point admitted = {};
  };
  using Handle = std::list<Entry>::iterator;

  explicit ConnectionLimits(const ConnectionLimitOptions& options) : options_(options) {}

  // Call Admit before reading from the connection `fd`. Returns a reason if the connection is
  // rejected. `role` is nullopt before a TLS handshake. At the limit per peer, Admit shuts down the
  // oldest connection of the peer that has not sent the HTTP/2 preface. At the total limit, Admit
  // shuts down the oldest connection that has not sent the HTTP/2 preface or has a lower role.
  // Admit accepts up to `max_handshakes` additional connections with an unknown role. At this
  // limit, Admit shuts down the oldest handshake of the address with the most connections. An
  // address's only handshake is shut down for another handshake only after `handshake_grace`.
  // Otherwise, new connections from many addresses could end all handshakes before they are
  // complete.
  std::optional<Rejection> Admit(const std::string& key, std::optional<Role> role, int fd,
                                 Clock::time_point now, Handle& handle);
  // Call Identify after the TLS handshake. Applies the limits per peer to the `name` in the
  // certificate, and the total limit to `role`. Afterwards, the connection no longer counts towards
  // the limit of the client's address.
  std::optional<Rejection> Identify(Handle handle, const std::string& name, Role role,
                                    Clock::time_point now);
  // Returns true if the connection was shut down so that a newer connection could be admitted.
  bool WasShutDown(Handle handle);
  // Call Greeted after the client has sent the HTTP/2 preface.
  void Greeted(Handle handle);
  // Call Penalize when the peer has exceeded a limit.
  void Penalize(Handle handle, Clock::time_point now);
  // Call Close before the descriptor is closed. The connection counts towards the limits until
  // Remove, because it still uses resources. Returns true if the connection was shut down so that a
  // newer connection could be admitted.
  bool Close(Handle handle);
  // Shuts down all connections that are not closed yet.
  void ShutDownAll();
  // Call Remove after Close, when the connection uses no more resources.
  void Remove(Handle handle);

  size_t connections() const { return count_; }

 private:
  // Returns the priority of a connection. At the total limit, connections with priority 0 are
  // closed first.
  static int Weight(const Entry& entry);
  TokenBucket& BucketOf(const std::string& key, Clock::time_point now);
  // Returns false if the clients of `role` have opened too many connections.
  bool TakeOfRole(Role role, Clock::time_point now);
  // These methods return false if there is no room for another connection.
  bool MakeRoom(Role role);
  bool MakeRoomOfPeer(const std::string& key);
  // Does not replace an address's only handshake if it was admitted after `before`.
  bool MakeRoomForHandshake(Clock::time_point before, size_t max_shut_down);
  bool Evict(Entry* entry, size_t max_shut_down);
  void Count(const Entry& entry, int by);

  const ConnectionLimitOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // In order of arrival.
  size_t handshakes_ = 0;     // Number of connections in `count_` with an unknown role.
  size_t shut_down_ = 0;      // Number of entries with made_room.
  std::map<std::string, uint32_t> of_key_;
  std::map<std::string, TokenBucket> buckets_;  // At most kMaxBuckets buckets.
  std::map<Role, TokenBucket> role_buckets_;
};

}  // namespace svcmap::api
