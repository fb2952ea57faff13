#include "proxy/desired/slots.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "nft/expr/jenkins_hash.h"
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
  std::ranges::sort(order, {}, [&](uint32_t i) { return std::tuple(weights[i], i); });
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

// The default is the smallest table only if it has at least this number of slots per endpoint.
constexpr size_t kSlotsPerEndpoint = 10;

// One endpoint's order of preference for the slots: start, start + step, start + 2 * step, and so
// on. The sequence contains each slot once, because the number of slots is prime.
struct Preference {
  uint32_t slot;
  uint32_t step;
  uint64_t weight;
  uint64_t due = 0;  // The endpoint takes a slot in round N if N * weight >= due.
};

// The result must be equal on all nodes and in all versions of svcmap. XXH3 is stable since xxHash
// 0.8.0. Ports of a Service can have different target ports. A client reaches one endpoint on all
// of them, because the hash does not contain the port.
uint64_t HashOf(const EndpointAddress& endpoint) {
  const auto bytes = endpoint.ip.bytes();
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted) {
  if (before.empty()) return wanted;
  // For each endpoint, its number of slots in `before`, minus the number in `wanted`.
  absl::flat_hash_map<EndpointAddress, int64_t> surplus;
  for (const EndpointAddress& endpoint : before) ++surplus[endpoint];
  for (const EndpointAddress& endpoint : wanted) --surplus[endpoint];
  std::vector<EndpointAddress> newcomers;
  for (const EndpointAddress& endpoint : wanted) {
    int64_t& count = surplus[endpoint];
    if (count >= 0) continue;
    newcomers.push_back(endpoint);
    ++count;
  }
  if (newcomers.empty() && wanted.size() == before.size()) return before;

  std::vector<EndpointAddress> slots = before;
  auto newcomer = newcomers.begin();
  for (size_t i = 0; i < slots.size();) {
    int64_t& count = surplus[slots[i]];
    if (count <= 0) {
      ++i;
      continue;
    }
    --count;
    if (newcomer != newcomers.end()) {
      slots[i++] = *newcomer++;
    } else {  // Keeps `i`, because the endpoint moved to slot `i` may also have to be removed.
      slots[i] = slots.back();
      slots.pop_back();
    }
  }
  slots.insert(slots.end(), newcomer, newcomers.end());
  return slots;
}

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
  if (weights.empty() || endpoints.empty()) return endpoints;
  const Counts counts = SlotCounts(weights);
  std::vector<EndpointAddress> slots;
  slots.reserve(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  for (size_t i = 0; i < endpoints.size(); ++i) slots.insert(slots.end(), counts[i], endpoints[i]);
  return slots;
}

uint32_t PickTableSize(const Service& service, size_t endpoints) {
  if (service.pick_table_size >= endpoints && service.pick_table_size != 0) {
    return service.pick_table_size;
  }
  if (endpoints * kSlotsPerEndpoint <= kHashTableSizes[0]) return kHashTableSizes[0];
  return endpoints <= kHashTableSizes[1] ? kHashTableSizes[1] : kHashTableSizes[2];
}

std::vector<EndpointAddress> MakeHashTable(const std::vector<EndpointAddress>& endpoints,
                                           const std::vector<uint16_t>& weights, uint32_t slots) {
  std::vector<Preference> preferences;
  preferences.reserve(endpoints.size());
  for (size_t i = 0; i < endpoints.size(); ++i) {
    const uint64_t hash = HashOf(endpoints[i]);
    preferences.push_back({.slot = static_cast<uint32_t>(hash) % slots,
                           .step = static_cast<uint32_t>(hash >> 32) % (slots - 1) + 1,
                           .weight = weights.empty() ? uint64_t{1} : weights[i]});
  }
  const uint64_t heaviest = weights.empty() ? 1 : *std::max_element(weights.begin(), weights.end());

  std::vector<EndpointAddress> table(slots);
  std::vector<bool> taken(slots);
  uint32_t left = slots;
  for (uint64_t round = 1; left > 0; ++round) {
    for (size_t i = 0; i < endpoints.size() && left > 0; ++i) {
      Preference& endpoint = preferences[i];
      if (round * endpoint.weight < endpoint.due) continue;
      endpoint.due += heaviest;
      while (taken[endpoint.slot]) endpoint.slot = (endpoint.slot + endpoint.step) % slots;
      table[endpoint.slot] = endpoints[i];
      taken[endpoint.slot] = true;
      --left;
    }
  }
  return table;
}

uint32_t SlotOfClient(const IpAddress& client, uint32_t slots) {
  return nft::HashedNumberOf(client.bytes(), slots, kHashSeed);
}

}  // namespace svcmap::proxy
