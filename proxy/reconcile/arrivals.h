// Batches that the loop has received, but not accepted yet. Their changes are not in the store.
//
// The loop accepts the batches of all clients in the order of their arrival, and accepts each batch
// as a whole. In each turn, the loop accepts batches with about as many map elements as one plan
// has, and then makes and commits one plan.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "absl/functional/function_ref.h"
#include "proxy/reconcile/batch.h"
#include "proxy/reconcile/loop_status.h"

namespace svcmap::proxy {

struct Arrival {
  std::chrono::steady_clock::time_point submitted;
  std::optional<Batch> batch;
  std::function<void()> start_session;  // Set if the arrival starts a session instead.
  // Set by Arrivals.
  size_t elements = 0;
  ChangeCounts changes;
};

class Arrivals {
 public:
  using Clock = std::chrono::steady_clock;

  void Add(Arrival arrival);
  // Accepts the arrivals of a turn: about `elements` map elements, but at least one batch. With 0,
  // only batches without changes. All batches before the start of a session are accepted in any
  // case, because a client that opens streams repeatedly must not fill the queue faster than plans
  // empty it.
  void Take(size_t elements, absl::FunctionRef<void(Arrival)> accept);

  bool empty() const { return waiting_.empty(); }
  // Returns when the oldest waiting arrival was submitted.
  std::optional<Clock::time_point> oldest() const;
  // Number of changes in the waiting batches.
  const ChangeCounts& changes() const { return changes_; }

 private:
  std::deque<Arrival> waiting_;
  size_t session_starts_ = 0;  // Number of session starts in `waiting_`.
  ChangeCounts changes_;
};

}  // namespace svcmap::proxy
