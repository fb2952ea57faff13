#include "proxy/diff/leftovers.h"

#include "proxy/diff/plan.h"

namespace svcmap::proxy {

void Leftovers::Add(nft::Transaction rows, const std::vector<Number>& numbers) {
  // Source ranges come last, in portions of their own: a packet that has found the restriction of a
  // port range looks up its source next.
  for (const bool sources : {false, true}) {
    rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
      if (HasSourceRanges(element.set.set) != sources) return;
      keys_.insert(SharedKey(element.set, element.key));
      if (sources) ++source_ranges_;
      const bool is_open = portions_.size() > due_ + waiting_ &&
                           portions_.back().sources == sources &&
                           portions_.back().rows.element_count() < kElementsPerCommit;
      if (!is_open) portions_.push_back({.sources = sources});
      portions_.back().rows.Delete(element);
    });
  }
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  if (empty()) return;
  std::vector<Number>& last = portions_.back().numbers;
  last.insert(last.end(), numbers_.begin(), numbers_.end());
  numbers_.clear();
}

bool Leftovers::Contains(nft::SetRef set, std::span<const uint8_t> key) const {
  return keys_.contains(SharedKey(set, key));
}

bool Leftovers::CollideWith(const nft::Transaction& transaction) const {
  if (empty()) return false;
  bool collides = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (verb == nft::Verb::kDelete) return;
    collides |= (source_ranges_ > 0 && HasSourceRanges(element.set.set)) ||
                Contains(element.set, element.key);
  });
  return collides;
}

// Source ranges wait again after the restrictions before them are deleted.
uint64_t Leftovers::BeginWait() {
  size_t end = due_;
  while (end < portions_.size() &&
         (end == due_ || !portions_[end].sources || portions_[end - 1].sources)) {
    ++end;
  }
  waiting_ = end - due_;
  return ++wait_;
}

void Leftovers::EndWait(uint64_t wait) {
  if (wait == wait_) due_ += std::exchange(waiting_, 0);
}

void Leftovers::ForgetNext() {
  Portion& next = portions_.front();
  next.rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.erase(SharedKey(element.set, element.key));
    if (HasSourceRanges(element.set.set)) --source_ranges_;
  });
  free_.insert(free_.end(), next.numbers.begin(), next.numbers.end());
  portions_.pop_front();
  --due_;
}

void Leftovers::Clear() {
  for (const Portion& portion : portions_) {
    numbers_.insert(numbers_.end(), portion.numbers.begin(), portion.numbers.end());
  }
  portions_.clear();
  due_ = waiting_ = 0;
  keys_.clear();
  source_ranges_ = 0;
}

std::vector<Number> Leftovers::TakeFreeNumbers() {
  if (empty()) {
    free_.insert(free_.end(), numbers_.begin(), numbers_.end());
    numbers_.clear();
  }
  return std::exchange(free_, {});
}

}  // namespace svcmap::proxy
