#include "proxy/desired/hash_table.h"

#include <xxhash.h>

#include <algorithm>

#include "nft/expr/jenkins_hash.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {
namespace {

// With fewer slots per endpoint than this, the default is a larger table.
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
// 0.8.0.
uint64_t HashOf(const EndpointAddress& endpoint) {
  const auto bytes = endpoint.ip.bytes();
  uint8_t key[18];
  const auto end = std::copy(bytes.begin(), bytes.end(), key);
  end[0] = static_cast<uint8_t>(endpoint.port >> 8);
  end[1] = static_cast<uint8_t>(endpoint.port);
  return XXH3_64bits(key, bytes.size() + 2);
}

}  // namespace

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
