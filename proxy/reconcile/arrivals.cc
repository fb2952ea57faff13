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
  if (arrival.batch) {
    arrival.elements = ElementsOf(*arrival.batch);
    for (const Change& change : arrival.batch->changes) arrival.changes.Count(change.kind);
    for (const DeferredChange& late : arrival.batch->deferred) arrival.changes.Count(late.kind);
    changes_ += arrival.changes;
  } else {
    ++session_starts_;
  }
  waiting_.push_back(std::move(arrival));
}

void Arrivals::Take(size_t elements, absl::FunctionRef<void(Arrival)> accept) {
  bool first = elements > 0;
  while (!waiting_.empty() &&
         (session_starts_ > 0 || first || waiting_.front().elements <= elements)) {
    Arrival next = std::move(waiting_.front());
    waiting_.pop_front();
    if (next.batch) {
      first = false;
    } else {
      --session_starts_;
    }
    elements -= std::min(elements, next.elements);
    changes_ -= next.changes;
    accept(std::move(next));
  }
}

std::optional<Arrivals::Clock::time_point> Arrivals::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().submitted;
}

}  // namespace svcmap::proxy
