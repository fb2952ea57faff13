#include "proxy/desired/weights.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {
namespace {

using Weights = std::vector<uint16_t>;
using Counts = std::vector<uint32_t>;

constexpr uint64_t kPrecision = 256;
constexpr uint64_t kSlotsPerWeightedEndpoint = 4;

uint64_t Sum(const Weights& weights) {
  return std::accumulate(weights.begin(), weights.end(), uint64_t{0});
}

// Divides `slots` (at least one per weight) among the endpoints. Each endpoint whose share is below
// one slot gets one slot. The largest remainder method divides the remaining slots.
Counts Divide(const Weights& weights, uint64_t slots) {
  Counts counts(weights.size(), 1);
  std::vector<uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(weights[a], a) < std::tie(weights[b], b);
  });
  uint64_t sum = Sum(weights);
  auto first = order.begin();
  for (; weights[*first] * slots < sum; ++first) {
    sum -= weights[*first];
    --slots;
  }
  uint64_t left = slots;
  for (auto it = first; it != order.end(); ++it) {
    counts[*it] = static_cast<uint32_t>(weights[*it] * slots / sum);
    left -= counts[*it];
  }
  std::sort(first, order.end(), [&](uint32_t a, uint32_t b) {
    const uint64_t part_a = weights[a] * slots % sum, part_b = weights[b] * slots % sum;
    return std::tie(part_b, a) < std::tie(part_a, b);
  });
  for (uint64_t i = 0; i < left; ++i) ++counts[first[static_cast<ptrdiff_t>(i)]];
  return counts;
}

bool Precise(const Weights& weights, const Counts& counts, uint64_t slots) {
  const uint64_t sum = Sum(weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t is = counts[i] * sum, should_be = weights[i] * slots;
    const uint64_t off = is > should_be ? is - should_be : should_be - is;
    if (off * kPrecision >= slots * sum) return false;
  }
  return true;
}

}  // namespace

Counts SlotCounts(const Weights& weights) {
  const uint64_t divisor = std::accumulate(weights.begin(), weights.end(), uint64_t{0},
                                           [](uint64_t a, uint64_t b) { return std::gcd(a, b); });
  if (divisor == 0) return {};
  const uint64_t exact = Sum(weights) / divisor;
  const uint64_t most = std::min<uint64_t>(exact, std::max<size_t>(kMaxEndpoints, weights.size()));
  for (uint64_t slots = std::max(kPrecision, kSlotsPerWeightedEndpoint * weights.size());;
       slots *= 2) {
    slots = std::min(slots, most);
    Counts counts = Divide(weights, slots);
    if (slots == most || Precise(weights, counts, slots)) return counts;
  }
}

std::vector<EndpointAddress> Weighted(std::vector<EndpointAddress> endpoints,
                                      const Weights& weights) {
  if (weights.empty()) return endpoints;
  const Counts counts = SlotCounts(weights);
  std::vector<EndpointAddress> slots;
  slots.reserve(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  for (size_t i = 0; i < endpoints.size(); ++i) slots.insert(slots.end(), counts[i], endpoints[i]);
  return slots;
}

}  // namespace svcmap::proxy
