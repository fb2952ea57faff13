#include "proxy/diff/leftovers.h"

#include <algorithm>

#include "proxy/diff/plan.h"

namespace svcmap::proxy {

void Leftovers::Append(const nft::ElementView& element) {
  const bool is_open = portions_.size() > due_ + waiting_ &&
                       portions_.back().elements.element_count() < kElementsPerCommit;
  if (!is_open) portions_.emplace_back();
  portions_.back().elements.Delete(element);
}

void Leftovers::Add(const nft::Transaction& rows, const std::vector<Number>& numbers) {
  nft::Transaction sources;
  rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.insert(SharedKey(element.set, element.key));
    ++counts_[element.set.set];
    HasSourceRanges(element.set.set) ? sources.Delete(element) : Append(element);
  });
  if (sources.element_count() < rows.element_count()) {
    portions_.back().sources.AddElements(std::move(sources));
  } else {
    sources.ForEachElement([&](nft::Verb, const nft::ElementView& element) { Append(element); });
  }
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  if (portions_.empty()) return;
  std::vector<Number>& last = portions_.back().numbers;
  last.insert(last.end(), numbers_.begin(), numbers_.end());
  numbers_.clear();
}

bool Leftovers::Contains(nft::SetRef set, std::span<const uint8_t> key) const {
  return keys_.contains(SharedKey(set, key));
}

bool Leftovers::CollideWith(const nft::Transaction& transaction) const {
  if (empty()) return false;
  const bool sources_collide =
      std::ranges::any_of(kSourceSets, [this](SetIndex set) { return Count(set) > 0; });
  bool collides = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (verb == nft::Verb::kDelete) return;
    const auto [family, set] = element.set;
    collides |=
        (sources_collide && HasSourceRanges(set)) || Contains(element.set, element.key) ||
        (HasRangePorts(set) && Contains({family, kRangeFirewallIps}, RangeFirewallKey(element)));
  });
  return collides;
}

uint64_t Leftovers::BeginWait() {
  waiting_ = portions_.size() - due_;
  return ++wait_;
}

void Leftovers::EndWait(uint64_t wait) {
  if (wait == wait_) due_ += std::exchange(waiting_, 0);
}

void Leftovers::ForgetNext() {
  const Portion next = std::move(portions_.front());
  portions_.pop_front();
  --due_;
  next.elements.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.erase(SharedKey(element.set, element.key));
    --counts_[element.set.set];
  });
  free_.insert(free_.end(), next.numbers.begin(), next.numbers.end());
  next.sources.ForEachElement([&](nft::Verb, const nft::ElementView& element) { Append(element); });
}

void Leftovers::Clear() {
  for (const Portion& portion : portions_) {
    numbers_.insert(numbers_.end(), portion.numbers.begin(), portion.numbers.end());
  }
  portions_.clear();
  due_ = waiting_ = 0;
  keys_.clear();
  counts_ = {};
}

std::vector<Number> Leftovers::TakeFreeNumbers() {
  if (portions_.empty()) {
    free_.insert(free_.end(), numbers_.begin(), numbers_.end());
    numbers_.clear();
  }
  return std::exchange(free_, {});
}

}  // namespace svcmap::proxy
