#include "proxy/diff/leftovers.h"

#include "proxy/diff/plan.h"

namespace svcmap::proxy {

void Leftovers::Add(nft::Transaction rows, const std::vector<Number>& numbers) {
  // Source ranges come last, in portions of their own: a packet that has found the restriction of a
  // port range looks up its source next.
  for (const bool sources : {false, true}) {
    bool begin = true;
    rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
      if (HasSourceRanges(element.set.set) != sources) return;
      keys_.insert(SharedKey(element.set, element.key));
      if (sources) ++source_ranges_;
      if (begin || portions_.back().element_count() == kElementsPerCommit) portions_.emplace_back();
      begin = false;
      portions_.back().Delete(element);
    });
  }
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
}

bool Leftovers::CollideWith(const nft::Transaction& transaction) const {
  if (empty()) return false;
  bool collides = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (verb == nft::Verb::kDelete) return;
    collides |= (source_ranges_ > 0 && HasSourceRanges(element.set.set)) ||
                keys_.contains(SharedKey(element.set, element.key));
  });
  return collides;
}

void Leftovers::ForgetNext() {
  portions_.front().ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.erase(SharedKey(element.set, element.key));
    if (HasSourceRanges(element.set.set)) --source_ranges_;
  });
  portions_.pop_front();
}

void Leftovers::Clear() {
  portions_.clear();
  keys_.clear();
  source_ranges_ = 0;
}

std::vector<Number> Leftovers::TakeFreeNumbers() {
  return empty() ? std::exchange(numbers_, {}) : std::vector<Number>();
}

}  // namespace svcmap::proxy
