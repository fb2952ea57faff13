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
  return !slice || store.IsDirty(slice->service_key);
}

bool ChangesDirtyService(const Store& store, const Change& change) {
  if (change.kind == Kind::kService) return store.IsDirty(change.key);
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
  Source& source = arrival.batch && arrival.batch->out_of_band ? others_ : session_;
  Waiting& waiting = source.queue.emplace_back();
  waiting.arrival = std::move(arrival);
  if (!waiting.arrival.batch) {
    ++source.session_starts;
    return;
  }
  waiting.elements = ElementsOf(*waiting.arrival.batch);
  for (const Change& change : waiting.arrival.batch->changes) waiting.changes.Count(change.kind);
  for (const DeferredChange& change : waiting.arrival.batch->deferred) {
    waiting.changes.Count(change.kind);
  }
  changes_ += waiting.changes;
}

void Arrivals::StartTurn(uint64_t unprogrammed) {
  for (Source* source : {&session_, &others_}) {
    source->waits = source->last >= unprogrammed;
    source->closed = false;
  }
  any_ = false;
  elements_left_ = max_elements_;
}

void Arrivals::StartUnlimitedTurn() {
  StartTurn(std::numeric_limits<uint64_t>::max());
  elements_left_ = std::numeric_limits<size_t>::max();
}

std::optional<Arrival> Arrivals::Take(uint64_t number) {
  for (Source* source : {first_, Other(first_)}) {
    if (source->queue.empty() || source->closed) continue;
    if (!Accepts(*source)) {
      source->closed = true;
      continue;
    }
    elements_left_ -= std::min(elements_left_, source->queue.front().elements);
    Arrival arrival = Pop(*source);
    if (arrival.batch) {
      if (!std::exchange(any_, true)) first_ = Other(source);
      source->last = number;
    }
    return arrival;
  }
  return std::nullopt;
}

// A new session waits for the batches of the previous one, so these are not delayed further.
bool Arrivals::Accepts(const Source& source) const {
  const Waiting& next = source.queue.front();
  if (source.session_starts > 0) return true;
  if (!source.waits && (!any_ || next.elements <= elements_left_)) return true;
  return ChangesOnlyDirtyServices(store_, *next.arrival.batch);
}

Arrival Arrivals::Pop(Source& source) {
  Waiting waiting = std::move(source.queue.front());
  source.queue.pop_front();
  if (!waiting.arrival.batch) --source.session_starts;
  changes_ -= waiting.changes;
  return std::move(waiting.arrival);
}

std::optional<Arrivals::Clock::time_point> Arrivals::oldest() const {
  std::optional<Clock::time_point> oldest;
  for (const Source* source : {&session_, &others_}) {
    if (source->queue.empty()) continue;
    const Clock::time_point submitted = source->queue.front().arrival.submitted;
    oldest = std::min(oldest.value_or(submitted), submitted);
  }
  return oldest;
}

}  // namespace svcmap::proxy
