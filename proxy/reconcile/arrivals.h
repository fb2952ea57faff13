// Batches that the loop has received, but not accepted: their changes are not in the store yet.
//
// There are two sources of batches: the controller's stream, and everything else. In each turn, the
// loop accepts batches, and then makes and commits one plan. A turn accepts batches with about as
// many map elements as one plan has, and prefers the source that the previous turn did not prefer,
// so that a long queue of one source hardly delays the batches of the other source.
//
// A batch is accepted as a whole, and batches of one source keep their order. Batches that change
// only dirty Services are accepted in any number, so that many versions of a Service are planned
// once.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "proxy/reconcile/batch.h"
#include "proxy/reconcile/change_counts.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct Arrival {
  std::chrono::steady_clock::time_point submitted;
  std::optional<Batch> batch;
  std::function<void()> start_session;  // Set if the arrival starts a session instead.
};

class Arrivals {
 public:
  using Clock = std::chrono::steady_clock;

  // A turn accepts at most `max_elements` map elements. This does not limit the first batch,
  // batches that change only dirty Services, and batches before the start of a new session.
  Arrivals(const Store& store, size_t max_elements) : store_(store), max_elements_(max_elements) {}
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  void Add(Arrival arrival);
  // If changes are planned in parts, changes of accepted batches may be unplanned. For each source,
  // `unprogrammed` is the number of its first batch with such changes, or a higher number than that
  // of its last batch. A source whose last accepted batch has this number or a higher one waits.
  // Otherwise, accepted changes would pile up, and the other source's next change would wait for
  // all of them.
  void StartTurn(const DirtyService::FirstChanges& unprogrammed);
  // As StartTurn, but the turn accepts all batches.
  void StartUnlimitedTurn();
  // Returns the next arrival that this turn accepts, or nullopt. If it is a batch, it gets the
  // number `number`.
  std::optional<Arrival> Take(uint64_t number);

  bool empty() const { return session_.waiting.empty() && others_.waiting.empty(); }
  // Returns when the oldest waiting arrival was submitted.
  std::optional<Clock::time_point> oldest() const;
  // Number of changes in the waiting batches.
  const ChangeCounts& changes() const { return changes_; }

 private:
  struct Waiting {
    Arrival arrival;
    size_t elements = 0;
    ChangeCounts changes;
  };
  struct Queue {
    std::deque<Waiting> waiting;
    size_t session_starts = 0;  // In `waiting`.
    uint64_t last = 0;          // Number of the last accepted batch.
    bool waits = false;   // In this turn, only batches that change dirty Services are accepted.
    bool closed = false;  // In this turn, no further batch is accepted.
  };

  Queue* Other(Queue* queue) { return queue == &session_ ? &others_ : &session_; }
  bool Accepts(const Queue& queue) const;
  Arrival Pop(Queue& queue);

  const Store& store_;
  const size_t max_elements_;
  Queue session_;  // Batches of the stream, and starts of sessions.
  Queue others_;   // Batches that are out of band.
  ChangeCounts changes_;
  Queue* first_ = &session_;  // Preferred: not the queue of the last turn's first batch.
  bool any_ = false;          // A batch was accepted in this turn.
  size_t elements_left_ = 0;  // In this turn.
};

}  // namespace svcmap::proxy
