// Decides when svcmap-etcd writes the status of the node to etcd
// (docs/fleet.md#state-of-the-fleet). Any write after svcmapd has acknowledged the seq of a request
// answers this request. Contains no clock, thread or connection.
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
  // Time after the start during which an unhealthy node is not reported, because each node is
  // unhealthy at first.
  static constexpr std::chrono::seconds kStartTime{30};

  explicit StatusWriter(Clock::time_point now, Backoff::Random random = Backoff::SeededRandom());

  // Sets the status that an earlier process has written to etcd. Must be called before Due.
  void Found(const fleet::NodeStatus& stored) { stored_ = stored; }

  // Stores a new or changed request. It replaces an earlier request whose seq svcmapd has not
  // acknowledged yet, and does not postpone the answer to other earlier requests. Ends the delay
  // after failed writes, because etcd has stored the request, so it accepts writes again.
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
  std::optional<fleet::Ask> ask_;             // Request whose seq is not acknowledged yet.
  std::optional<Clock::time_point> answer_;   // When the answer to acknowledged requests is due.
};

}  // namespace svcmap::etcd
