#include "api/screen/connection_limits.h"

#include <sys/socket.h>

#include <algorithm>
#include <iterator>

namespace svcmap::api {
namespace {

constexpr size_t kMaxBuckets = 4096;

}  // namespace

const char* NameOf(Rejection rejection) {
  static constexpr const char* kNames[] = {
      "total-limit",
      "peer-limit",
      "rate-limit",
      "role-rate-limit",
      "made-room",
      "greeting-timeout",
      "handshake-failed",
      "not-http2",
      "too-many-streams",
      "requests-too-large",
      "too-many-resets",
      "too-many-frames",
      "header-block-too-large",
      "responses-not-read",
  };
  static_assert(std::size(kNames) == kRejections);
  return kNames[static_cast<size_t>(rejection)];
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

bool ConnectionLimits::TakeOfRole(Role role, Clock::time_point now) {
  if (role == Role::kWrite) return true;
  const TokenBucket full(options_.role_burst, options_.role_per_second, now);
  return role_buckets_.try_emplace(role, full).first->second.Take(1, now);
}

bool ConnectionLimits::MakeRoom(Role role) {
  const size_t max_shut_down = role == Role::kWrite ? SIZE_MAX : options_.max_shut_down;
  if (count_ - handshakes_ >= options_.max_connections) {
    Entry* victim = nullptr;
    for (Entry& entry : entries_) {
      if (entry.made_room || !entry.role || Weight(entry) > static_cast<int>(role)) continue;
      if (victim == nullptr || Weight(entry) < Weight(*victim)) victim = &entry;
    }
    if (!Evict(victim, max_shut_down)) return false;
  }
  return MakeRoomForHandshake(Clock::time_point::max(), max_shut_down);
}

// Shuts down the oldest handshake of the address with the most handshakes, so that an address
// cannot displace the handshakes of other addresses.
bool ConnectionLimits::MakeRoomForHandshake(Clock::time_point before, size_t max_shut_down) {
  if (count_ < options_.max_connections + options_.max_handshakes) return true;
  Entry* victim = nullptr;
  uint32_t most = 0;
  for (Entry& entry : entries_) {
    const uint32_t connections = of_key_[entry.key];
    if (entry.made_room || entry.role || connections <= most) continue;
    if (connections == 1 && entry.admitted > before) continue;
    victim = &entry;
    most = connections;
  }
  return Evict(victim, max_shut_down);
}

bool ConnectionLimits::MakeRoomOfPeer(const std::string& key) {
  const auto found = of_key_.find(key);
  if (found == of_key_.end() || found->second < options_.max_connections_per_peer) return true;
  for (Entry& entry : entries_) {
    if (entry.key == key && !entry.greeted && !entry.made_room) {
      return Evict(&entry, options_.max_shut_down);
    }
  }
  return false;
}

bool ConnectionLimits::Evict(Entry* entry, size_t max_shut_down) {
  if (entry == nullptr || shut_down_ >= max_shut_down) return false;
  Count(*entry, -1);
  entry->made_room = true;
  ++shut_down_;
  // The thread of the connection closes the descriptor.
  if (entry->fd >= 0) shutdown(entry->fd, SHUT_RDWR);
  return true;
}

// Adds `by`, which is 1 or -1, to the counters to which the connection belongs.
void ConnectionLimits::Count(const Entry& entry, int by) {
  count_ += by;
  if (!entry.role) handshakes_ += by;
  const auto of_key = of_key_.try_emplace(entry.key).first;
  of_key->second += by;
  if (of_key->second == 0) of_key_.erase(of_key);
}

std::optional<Rejection> ConnectionLimits::Admit(const std::string& key, std::optional<Role> role,
                                                 int fd, Clock::time_point now, Handle& handle) {
  const std::lock_guard lock(mutex_);
  if (!BucketOf(key, now).Take(1, now)) return Rejection::kRateLimit;
  if (!MakeRoomOfPeer(key)) return Rejection::kPeerLimit;
  if (role && !TakeOfRole(*role, now)) return Rejection::kRoleRateLimit;
  if (!(role ? MakeRoom(*role)
             : MakeRoomForHandshake(now - options_.handshake_grace, options_.max_shut_down))) {
    return Rejection::kTotalLimit;
  }
  handle =
      entries_.insert(entries_.end(), Entry{.key = key, .role = role, .fd = fd, .admitted = now});
  Count(*handle, 1);
  return std::nullopt;
}

std::optional<Rejection> ConnectionLimits::Identify(Handle handle, const std::string& name,
                                                    Role role, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const std::string key = "certificate " + name;  // Differs from all addresses and users.
  if (handle->made_room) return Rejection::kMadeRoom;
  if (!BucketOf(key, now).Take(1, now)) return Rejection::kRateLimit;
  if (!MakeRoomOfPeer(key)) return Rejection::kPeerLimit;
  if (!TakeOfRole(role, now)) return Rejection::kRoleRateLimit;
  Count(*handle, -1);
  const bool room = MakeRoom(role);
  if (room) {
    handle->key = key;
    handle->role = role;
  }
  Count(*handle, 1);
  return room ? std::nullopt : std::optional(Rejection::kTotalLimit);
}

bool ConnectionLimits::WasShutDown(Handle handle) {
  const std::lock_guard lock(mutex_);
  return handle->made_room;
}

void ConnectionLimits::Greeted(Handle handle) {
  const std::lock_guard lock(mutex_);
  handle->greeted = true;
}

void ConnectionLimits::Penalize(Handle handle, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  BucketOf(handle->key, now).Charge(options_.offence_cost, now);
}

bool ConnectionLimits::Close(Handle handle) {
  const std::lock_guard lock(mutex_);
  handle->fd = -1;
  return handle->made_room;
}

void ConnectionLimits::ShutDownAll() {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.fd >= 0) shutdown(entry.fd, SHUT_RDWR);
  }
}

void ConnectionLimits::Remove(Handle handle) {
  const std::lock_guard lock(mutex_);
  if (handle->made_room) {
    --shut_down_;
  } else {
    Count(*handle, -1);
  }
  entries_.erase(handle);
}

}  // namespace svcmap::api
