// Decides when svcmap-etcd writes the status of the node to etcd. Contains no clock, thread or
// connection.
//
// A write is due
// - if `healthy`, `rejected` or `held` has changed, at most every kChangeInterval,
// - every kPeriod, beginning at a random time, unless the last write is younger than half of
//   kPeriod,
// - after a request (fleet::Ask) whose seq svcmapd has acknowledged, after a random part of the
//   window of the request. Any write of an acknowledged seq answers the request.
#pragma once

#include <chrono>
#include <optional>

#include "api/fleet/node_status.h"
#include "nft/base/backoff.h"

namespace svcmap::etcd {

// Not thread-safe.
class StatusWriter {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::seconds kChangeInterval{5};
  static constexpr std::chrono::minutes kPeriod{5};
  // An unhealthy node is not reported earlier after the start, because every start is unhealthy.
  static constexpr std::chrono::seconds kStartTime{30};

  explicit StatusWriter(Clock::time_point now, Backoff::Random random = Backoff::SeededRandom());

  // Sets the status in etcd that an earlier process has written. Must be called before Due.
  void Found(const fleet::NodeStatus& stored) { stored_ = stored; }

  // Takes a new or changed request, which replaces the last one.
  void Asked(const fleet::Ask& ask);

  // Returns whether `status` must be written now. The caller then calls Written or Failed.
  bool Due(const fleet::NodeStatus& status, Clock::time_point now);
  void Written(const fleet::NodeStatus& status, Clock::time_point now);
  // Delays the next write. Returns whether this is the first failure since the last write.
  bool Failed(Clock::time_point now);

 private:
  bool Changed(const fleet::NodeStatus& status, Clock::time_point now) const;

  const Clock::time_point started_;
  Backoff backoff_;
  Clock::time_point periodic_;
  Clock::time_point not_before_;
  std::optional<fleet::NodeStatus> stored_;   // The status in etcd, if known.
  std::optional<Clock::time_point> written_;  // Last write of this process.
  std::optional<fleet::Ask> ask_;             // Not answered yet.
  std::optional<Clock::time_point> answer_;   // Set when svcmapd has acknowledged the seq of ask_.
};

}  // namespace svcmap::etcd
