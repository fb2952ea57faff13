#include "proxy/diff/leftovers.h"

#include <algorithm>

#include "proxy/diff/plan.h"

namespace svcmap::proxy {

void Leftovers::AddElement(Queue& queue, const nft::ElementView& element, uint64_t after) {
  const bool is_open = queue.portions.size() > queue.due + queue.waiting &&
                       queue.portions.back().after == after &&
                       queue.portions.back().elements.element_count() < kElementsPerCommit;
  if (!is_open) queue.portions.push_back({.after = after});
  queue.portions.back().elements.Delete(element);
  keys_.insert(SharedKey(element.set, element.key));
  ++counts_[element.set.set];
}

void Leftovers::Add(nft::Transaction rows, const std::vector<Number>& numbers) {
  rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (!HasSourceRanges(element.set.set)) AddElement(rows_, element, 0);
  });
  rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (!HasSourceRanges(element.set.set)) return;
    AddElement(sources_, element, deleted_ + rows_.portions.size());
  });
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  if (rows_.portions.empty()) return;
  std::vector<Number>& last = rows_.portions.back().numbers;
  last.insert(last.end(), numbers_.begin(), numbers_.end());
  numbers_.clear();
}

bool Leftovers::has_source_ranges() const {
  return std::ranges::any_of(kSourceSets, [this](SetIndex set) { return Count(set) > 0; });
}

bool Leftovers::Contains(nft::SetRef set, std::span<const uint8_t> key) const {
  return keys_.contains(SharedKey(set, key));
}

bool Leftovers::CollideWith(const nft::Transaction& transaction) const {
  if (empty()) return false;
  const bool sources_collide = has_source_ranges();
  bool collides = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (verb == nft::Verb::kDelete) return;
    collides |=
        (sources_collide && HasSourceRanges(element.set.set)) || Contains(element.set, element.key);
  });
  return collides;
}

size_t Leftovers::WaitableSources() const {
  const auto begin = sources_.portions.begin() + static_cast<ptrdiff_t>(sources_.due);
  const auto end = std::find_if(begin, sources_.portions.end(), [this](const Portion& portion) {
    return portion.after > deleted_;
  });
  return static_cast<size_t>(end - begin);
}

bool Leftovers::NeedWait() const {
  if (rows_.waiting > 0 || sources_.waiting > 0) return false;
  return rows_.due < rows_.portions.size() || WaitableSources() > 0;
}

uint64_t Leftovers::BeginWait() {
  rows_.waiting = rows_.portions.size() - rows_.due;
  sources_.waiting = WaitableSources();
  return ++wait_;
}

void Leftovers::EndWait(uint64_t wait) {
  if (wait != wait_) return;
  for (Queue* queue : {&rows_, &sources_}) queue->due += std::exchange(queue->waiting, 0);
}

const nft::Transaction& Leftovers::Next() const {
  return (rows_.due > 0 ? rows_ : sources_).portions.front().elements;
}

void Leftovers::ForgetNext() {
  Queue& queue = rows_.due > 0 ? rows_ : sources_;
  if (&queue == &rows_) ++deleted_;
  Portion& next = queue.portions.front();
  next.elements.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.erase(SharedKey(element.set, element.key));
    --counts_[element.set.set];
  });
  free_.insert(free_.end(), next.numbers.begin(), next.numbers.end());
  queue.portions.pop_front();
  --queue.due;
}

void Leftovers::Clear() {
  for (const Portion& portion : rows_.portions) {
    numbers_.insert(numbers_.end(), portion.numbers.begin(), portion.numbers.end());
  }
  rows_ = sources_ = {};
  keys_.clear();
  counts_ = {};
}

std::vector<Number> Leftovers::TakeFreeNumbers() {
  if (rows_.portions.empty()) {
    free_.insert(free_.end(), numbers_.begin(), numbers_.end());
    numbers_.clear();
  }
  return std::exchange(free_, {});
}

}  // namespace svcmap::proxy
