#include "proxy/reconcile/arrivals.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
namespace {

// An estimate: a delta or removal counts as one element, however large the stored object is,
// because the object may change before the batch is accepted. Each other change counts as one
// element more.
size_t ElementsOf(const Batch& batch) {
  uint64_t elements = batch.changes.size() + batch.deferred.size();
  for (const Change& change : batch.changes) {
    if (change.service) elements += ElementCount(*change.service);
    if (change.slice) elements += ElementCount(*change.slice);
  }
  return elements;
}

}  // namespace

void Arrivals::Add(Arrival arrival) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.arrival = std::move(arrival);
  if (!waiting.arrival.batch) {
    ++session_starts_;
    return;
  }
  waiting.elements = ElementsOf(*waiting.arrival.batch);
  for (const Change& change : waiting.arrival.batch->changes) waiting.changes.Count(change.kind);
  for (const DeferredChange& change : waiting.arrival.batch->deferred) {
    waiting.changes.Count(change.kind);
  }
  changes_ += waiting.changes;
}

void Arrivals::StartTurn(size_t elements) {
  elements_left_ = elements;
  first_ = elements > 0;
}

std::optional<Arrival> Arrivals::Take() {
  if (waiting_.empty()) return std::nullopt;
  Waiting& next = waiting_.front();
  if (session_starts_ == 0 && !first_ && next.elements > elements_left_) return std::nullopt;
  if (next.arrival.batch) {
    first_ = false;
  } else {
    --session_starts_;
  }
  elements_left_ -= std::min(elements_left_, next.elements);
  changes_ -= next.changes;
  Arrival arrival = std::move(next.arrival);
  waiting_.pop_front();
  return arrival;
}

std::optional<Arrivals::Clock::time_point> Arrivals::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().arrival.submitted;
}

}  // namespace svcmap::proxy
