#include "api/screen/connection_limits.h"

#include <sys/socket.h>

#include <algorithm>

namespace svcmap::api {
namespace {

constexpr size_t kMaxBuckets = 4096;

}  // namespace

const char* NameOf(Rejection rejection) {
  switch (rejection) {
    case Rejection::kTotalLimit:
      return "total-limit";
    case Rejection::kPeerLimit:
      return "peer-limit";
    case Rejection::kRateLimit:
      return "rate-limit";
    case Rejection::kMadeRoom:
      return "made-room";
    case Rejection::kGreetingTimeout:
      return "greeting-timeout";
    case Rejection::kHandshakeFailed:
      return "handshake-failed";
    case Rejection::kNotHttp2:
      return "not-http2";
    case Rejection::kTooManyStreams:
      return "too-many-streams";
    case Rejection::kRequestsTooLarge:
      return "requests-too-large";
    case Rejection::kTooManyResets:
      return "too-many-resets";
    case Rejection::kTooManyFrames:
      return "too-many-frames";
    case Rejection::kHeaderBlockTooLarge:
      return "header-block-too-large";
  }
  return "unknown";
}

int ConnectionLimits::Weight(const Entry& entry) {
  return entry.greeted && entry.role ? 1 + static_cast<int>(*entry.role) : 0;
}

TokenBucket& ConnectionLimits::BucketOf(const std::string& key, Clock::time_point now) {
  const auto found = buckets_.find(key);
  if (found != buckets_.end()) return found->second;
  if (buckets_.size() >= kMaxBuckets) {
    std::erase_if(buckets_, [&](auto& bucket) { return bucket.second.full(now); });
    // If too many peers have a bucket, deletes all buckets, so all peers start again with a full
    // bucket. The limit for all connections still applies.
    if (buckets_.size() >= kMaxBuckets) buckets_.clear();
  }
  const double burst = std::max(options_.burst, 2.0 * options_.max_connections_per_peer);
  return buckets_.emplace(key, TokenBucket(burst, options_.per_second, now)).first->second;
}

bool ConnectionLimits::MakeRoom(std::optional<Role> role) {
  // Before the TLS handshake, the role of a client is unknown. A new connection with an unknown
  // role replaces only connections that have sent no HTTP/2 preface or have no role.
  const int weight = 1 + static_cast<int>(role.value_or(Role::kRead));
  Entry* victim = nullptr;
  for (Entry& entry : entries_) {
    if (entry.made_room || Weight(entry) >= weight) continue;
    if (victim == nullptr || Weight(entry) < Weight(*victim)) victim = &entry;
  }
  if (victim == nullptr) return false;
  Evict(*victim);
  return true;
}

bool ConnectionLimits::MakeRoomOfPeer(const std::string& key) {
  for (Entry& entry : entries_) {
    if (entry.key != key || entry.greeted || entry.made_room) continue;
    Evict(entry);
    return true;
  }
  return false;
}

void ConnectionLimits::Evict(Entry& entry) {
  Uncount(entry);
  entry.made_room = true;
  shutdown(entry.fd, SHUT_RDWR);  // The thread of the connection closes the descriptor.
}

void ConnectionLimits::Uncount(const Entry& entry) {
  --count_;
  for (const std::string* key : {&entry.key, &entry.identity}) {
    const auto found = of_key_.find(*key);
    if (found != of_key_.end() && --found->second == 0) of_key_.erase(found);
  }
}

std::optional<Rejection> ConnectionLimits::Admit(const std::string& key, std::optional<Role> role,
                                                 int fd, Clock::time_point now, Handle& handle) {
  const std::lock_guard lock(mutex_);
  if (!BucketOf(key, now).Take(1, now)) return Rejection::kRateLimit;
  const auto found = of_key_.find(key);
  if (found != of_key_.end() && found->second >= options_.max_connections_per_peer &&
      !MakeRoomOfPeer(key)) {
    return Rejection::kPeerLimit;
  }
  if (count_ >= options_.max_connections && !MakeRoom(role)) return Rejection::kTotalLimit;
  ++of_key_[key];
  ++count_;
  handle = entries_.insert(entries_.end(), Entry{.key = key, .role = role, .fd = fd});
  return std::nullopt;
}

std::optional<Rejection> ConnectionLimits::Identify(Handle handle, const std::string& identity,
                                                    Role role) {
  const std::lock_guard lock(mutex_);
  if (handle->made_room) return Rejection::kMadeRoom;
  handle->role = role;
  uint32_t& count = of_key_[identity];
  if (count >= options_.max_connections_per_peer) return Rejection::kPeerLimit;
  ++count;
  handle->identity = identity;
  return std::nullopt;
}

void ConnectionLimits::Greeted(Handle handle) {
  const std::lock_guard lock(mutex_);
  handle->greeted = true;
}

void ConnectionLimits::Penalize(Handle handle, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  BucketOf(handle->key, now).Drain(options_.offence_cost, now);
}

bool ConnectionLimits::made_room(Handle handle) const {
  const std::lock_guard lock(mutex_);
  return handle->made_room;
}

void ConnectionLimits::Remove(Handle handle) {
  const std::lock_guard lock(mutex_);
  if (!handle->made_room) Uncount(*handle);
  entries_.erase(handle);
}

}  // namespace svcmap::api
