#include "proxy/diff/leftovers.h"

#include "proxy/diff/plan.h"

namespace svcmap::proxy {

void Leftovers::Add(nft::Transaction rows, const std::vector<Number>& numbers) {
  bool begin = true;
  rows.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.insert(SharedKey(element.set, element.key));
    if (begin || portions_.back().element_count() == kPortion) portions_.emplace_back();
    begin = false;
    portions_.back().Delete(element);
  });
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
}

bool Leftovers::CollideWith(const nft::Transaction& transaction) const {
  if (empty()) return false;
  bool collides = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    collides |= verb == nft::Verb::kAdd && keys_.contains(SharedKey(element.set, element.key));
  });
  return collides;
}

void Leftovers::ForgetNext() {
  portions_.front().ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    keys_.erase(SharedKey(element.set, element.key));
  });
  portions_.pop_front();
}

void Leftovers::Clear() {
  portions_.clear();
  keys_.clear();
}

std::vector<Number> Leftovers::TakeFreeNumbers() {
  return empty() ? std::exchange(numbers_, {}) : std::vector<Number>();
}

}  // namespace svcmap::proxy
