#include "proxy/reconcile/arrivals.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
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

// No slice changes no Service.
bool ServiceIsDirty(const Store& store, const std::shared_ptr<const EndpointSlice>& slice) {
  return !slice || store.dirty().Contains(slice->service_key);
}

bool ChangesDirtyService(const Store& store, const Change& change) {
  if (change.kind == Kind::kService) return store.dirty().Contains(change.key);
  if (change.kind != Kind::kEndpointSlice) return false;
  return ServiceIsDirty(store, change.slice) &&
         ServiceIsDirty(store, store.Stored(change.kind, change.key).slice);
}

bool ChangesOnlyDirtyServices(const Store& store, const Batch& batch) {
  return std::ranges::all_of(
             batch.changes,
             [&](const Change& change) { return ChangesDirtyService(store, change); }) &&
         std::ranges::all_of(batch.deferred, [&](const DeferredChange& change) {
           return ServiceIsDirty(store, store.Stored(change.kind, change.key).slice);
         });
}

}  // namespace

void Arrivals::Add(Arrival arrival) {
  Queue& queue = arrival.batch && arrival.batch->out_of_band ? others_ : session_;
  Waiting& waiting = queue.waiting.emplace_back();
  waiting.arrival = std::move(arrival);
  if (!waiting.arrival.batch) {
    ++queue.session_starts;
    return;
  }
  waiting.elements = ElementsOf(*waiting.arrival.batch);
  for (const Change& change : waiting.arrival.batch->changes) waiting.changes.Count(change.kind);
  for (const DeferredChange& change : waiting.arrival.batch->deferred) {
    waiting.changes.Count(change.kind);
  }
  changes_ += waiting.changes;
}

void Arrivals::StartTurn(const DirtyService::FirstChanges& unprogrammed) {
  for (const auto& [queue, source] :
       {std::pair{&session_, ChangeSource::kStream}, std::pair{&others_, ChangeSource::kOthers}}) {
    queue->waits = queue->last >= unprogrammed[Index(source)];
    queue->closed = false;
  }
  any_ = false;
  elements_left_ = max_elements_;
}

void Arrivals::StartUnlimitedTurn() {
  StartTurn({DirtyService::kNone, DirtyService::kNone});
  elements_left_ = std::numeric_limits<size_t>::max();
}

std::optional<Arrival> Arrivals::Take(uint64_t number) {
  for (Queue* queue : {first_, Other(first_)}) {
    if (queue->waiting.empty() || queue->closed) continue;
    if (!Accepts(*queue)) {
      queue->closed = true;
      continue;
    }
    elements_left_ -= std::min(elements_left_, queue->waiting.front().elements);
    Arrival arrival = Pop(*queue);
    if (arrival.batch) {
      if (!std::exchange(any_, true)) first_ = Other(queue);
      queue->last = number;
    }
    return arrival;
  }
  return std::nullopt;
}

// A new session waits for the batches of the previous one, so these are not delayed further.
bool Arrivals::Accepts(const Queue& queue) const {
  const Waiting& next = queue.waiting.front();
  if (queue.session_starts > 0) return true;
  if (!queue.waits && (!any_ || next.elements <= elements_left_)) return true;
  return ChangesOnlyDirtyServices(store_, *next.arrival.batch);
}

Arrival Arrivals::Pop(Queue& queue) {
  Waiting waiting = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  if (!waiting.arrival.batch) --queue.session_starts;
  changes_ -= waiting.changes;
  return std::move(waiting.arrival);
}

std::optional<Arrivals::Clock::time_point> Arrivals::oldest() const {
  std::optional<Clock::time_point> oldest;
  for (const Queue* queue : {&session_, &others_}) {
    if (queue->waiting.empty()) continue;
    const Clock::time_point submitted = queue->waiting.front().arrival.submitted;
    oldest = std::min(oldest.value_or(submitted), submitted);
  }
  return oldest;
}

}  // namespace svcmap::proxy
