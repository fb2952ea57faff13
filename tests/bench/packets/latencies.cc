#include "tests/bench/packets/latencies.h"

#include <algorithm>
#include <cmath>

namespace svcmap::bench {

void Latencies::Add(double microseconds) {
  values_.push_back(microseconds);
  sorted_ = false;
}

double Latencies::Percentile(double share) const {
  if (values_.empty()) return 0;
  if (!sorted_) std::sort(values_.begin(), values_.end());
  sorted_ = true;
  const double rank = std::ceil(share * static_cast<double>(values_.size()));
  return values_[std::clamp<size_t>(static_cast<size_t>(rank), 1, values_.size()) - 1];
}

}  // namespace svcmap::bench
