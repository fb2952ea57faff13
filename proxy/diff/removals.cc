#include "proxy/diff/removals.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proxy/diff/plan.h"

namespace svcmap::proxy {
namespace {

bool HasEndpoints(uint8_t set) { return set == kEndpoints || set == kRangeEndpoints; }

bool HasSlots(uint8_t set) { return HasEndpoints(set) || set == kAffinitySlots; }

// Packets reach the elements of these sets only through the maps of Service addresses, except for
// hairpin pairs and endpoints that are their own destination, which packets need after the maps.
bool IsReachedThroughOthers(uint8_t set) {
  return HasSlots(set) || set == kLocalSets || set == kHairpinConnections ||
         set == kRangeHairpins || set == kSelfEndpoints;
}

bool HasRangePorts(uint8_t set) { return set == kRangePorts || set == kRangeBlocks; }

bool IsReject(uint8_t set) {
  return set == kNoEndpointServices || set == kNoEndpointNodePorts ||
         set == kNoEndpointRangePorts || set == kNoEndpointRangeBlocks;
}

// Packets look up their destination in these sets: first in the maps, then in the rejects.
bool HasDestinations(uint8_t set) {
  return set == kServiceIps || HasRangePorts(set) || IsReject(set);
}

bool IsFirewallIps(uint8_t set) { return set == kFirewallIps || set == kRangeFirewallIps; }

constexpr size_t kSlotSize = 4;

bool IsFirstSlot(const nft::ElementView& element) {
  const auto slot = element.key.last(kSlotSize);
  return std::all_of(slot.begin(), slot.end(), [](uint8_t byte) { return byte == 0; });
}

// The key of an element. Does not own its bytes.
struct Key {
  nft::SetRef set;
  std::string_view bytes;

  friend bool operator==(const Key&, const Key&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const Key& key) {
    return H::combine(std::move(hash), key.set.family, key.set.set, key.bytes);
  }
};

using Keys = absl::flat_hash_set<Key>;

Key KeyIn(nft::SetRef set, std::span<const uint8_t> bytes) {
  return {set, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}

Key KeyOf(const nft::ElementView& element) { return KeyIn(element.set, element.key); }

std::span<const uint8_t> GroupBytes(const nft::ElementView& slot) {
  return slot.key.first(slot.key.size() - kSlotSize);
}

Key GroupOf(const nft::ElementView& slot) { return KeyIn(slot.set, GroupBytes(slot)); }

// Returns the address with which the key or data of an element begins.
Key AddressOf(nft::SetRef set, std::span<const uint8_t> bytes) {
  return KeyIn({set.family, kSetCount}, bytes.first(set.family == Family::kIpv4 ? 4 : 16));
}

// Returns the key of the load balancer IP that a source range belongs to.
Key FirewallIpOf(const nft::ElementView& source) {
  const size_t size = source.set.family == Family::kIpv4 ? 4 : 16;
  const SetIndex ips = source.set.set == kFirewallSources ? kFirewallIps : kRangeFirewallIps;
  return KeyIn({source.set.family, ips}, source.key.first(source.key.size() - size));
}

// Returns the key of the block that contains the port of a Service address, as SharedKey.
std::string BlockKey(const nft::ElementView& port) {
  constexpr size_t kLowByte =
      3;  // A port is the last word of the key: high byte, low byte, padding.
  std::vector<uint8_t> key(port.key.begin(), port.key.end());
  key[key.size() - kLowByte] = 0;
  return SharedKey({port.set.family, kRangeBlocks}, key);
}

// Returns the key of the restriction of all port ranges of an address and protocol. `ports` is an
// element of a map of ranges.
Key RangeFirewallIpOf(const nft::ElementView& ports) {
  return KeyIn({ports.set.family, kRangeFirewallIps}, ports.key.first(ports.key.size() - 4));
}

// What a transaction changes in the sets that matter here.
struct Changes {
  size_t reached = 0;  // Deletions of elements that packets reach through other rows.
  size_t sources = 0;  // Deletions of source ranges.
  bool others = false;
  bool adds_destinations = false;
  Keys added;             // Elements without slots.
  Keys rejected;          // Addresses of deleted rejects.
  Keys own_destinations;  // Those that added endpoints have, too.
  Keys deleted_groups;
  Keys deleted_firewall_ips;
  Keys ended_ranges;  // As RangeFirewallIpOf: destinations of which only elements are deleted.
};

Changes ChangesOf(const nft::Transaction& transaction) {
  constexpr size_t kTypicalKeys = 8;  // Of a change to one Service.
  Changes changes;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    const uint8_t set = element.set.set;
    const bool reached = IsReachedThroughOthers(set);
    if (verb == nft::Verb::kDelete) {
      changes.reached += reached ? 1 : 0;
      if (HasSlots(set) && IsFirstSlot(element)) changes.deleted_groups.insert(GroupOf(element));
      changes.sources += HasSourceRanges(set) ? 1 : 0;
      if (IsReject(set)) changes.rejected.insert(AddressOf(element.set, element.key));
      changes.others |= !reached && !HasSourceRanges(set);
      if (IsFirewallIps(set)) changes.deleted_firewall_ips.insert(KeyOf(element));
      if (HasRangePorts(set)) changes.ended_ranges.insert(RangeFirewallIpOf(element));
      return;
    }
    changes.others = true;
    if (HasSlots(set) && IsFirstSlot(element)) changes.deleted_groups.erase(GroupOf(element));
    changes.adds_destinations |= HasDestinations(set);
    if (!changes.rejected.empty() && (HasEndpoints(set) || IsStickyEndpoint(set))) {
      const Key address = AddressOf(element.set, element.data);
      if (changes.rejected.contains(address)) changes.own_destinations.insert(address);
    }
    // Deletions come first. Without them, the added keys do not matter.
    if ((reached && !HasSlots(set) && changes.reached > 0) ||
        (IsReject(set) && !changes.rejected.empty())) {
      if (changes.added.empty()) changes.added.reserve(kTypicalKeys);
      changes.added.insert(KeyOf(element));
    }
    if (IsFirewallIps(set)) changes.deleted_firewall_ips.erase(KeyOf(element));
    if (HasRangePorts(set)) changes.ended_ranges.erase(RangeFirewallIpOf(element));
  });
  return changes;
}

// Returns a transaction with the same changes of tables and without elements.
nft::Transaction WithoutElements(const nft::Transaction& transaction) {
  nft::Transaction copy;
  for (const Family family : transaction.drops()) copy.DropTable(family);
  for (const auto& creation : transaction.creations()) copy.CreateTable(creation);
  for (const nft::ChainRepair& repair : transaction.repairs()) copy.RepairChains(repair);
  return copy;
}

// Moves the elements for which `is_taken` returns true from `transaction` to the result. Calls
// `is_taken` once for each element, in order.
template <typename Predicate>
nft::Transaction Take(nft::Transaction& transaction, Predicate&& is_taken) {
  nft::Transaction taken, kept = WithoutElements(transaction);
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    nft::Transaction& to = is_taken(verb, element) ? taken : kept;
    if (verb == nft::Verb::kAdd) {
      to.Add(element);
    } else {
      to.Delete(element);
    }
  });
  if (!taken.empty()) transaction = std::move(kept);
  return taken;
}

}  // namespace

bool IsStickyEndpoint(uint8_t set) {
  return set == kAffinityEndpoints || set == kAffinityLocalEndpoints ||
         set == kRangeAffinityEndpoints || set == kRangeAffinityLocalEndpoints;
}

Number StickyPortOf(const nft::ElementView& endpoint) {
  constexpr size_t kPortSize = 2;
  return {NumberPool::kStickyPorts, endpoint.set.family,
          nft::ReadBigEndian(endpoint.key.first(kPortSize))};
}

nft::Transaction TakeRemovals(nft::Transaction& transaction, const std::vector<Number>& freed,
                              const absl::flat_hash_set<std::string>& ended_local_sets) {
  if (transaction.deletion_count() == 0) return {};
  const Changes changes = ChangesOf(transaction);
  const size_t candidates =
      changes.reached + changes.sources + changes.rejected.size() + changes.ended_ranges.size();
  if (!changes.others || candidates == 0) return {};

  const absl::flat_hash_set<Number> freed_numbers(freed.begin(), freed.end());
  // If a load balancer IP is no longer restricted, its source ranges must be deleted after its
  // restriction, because packets look up the restriction first. Ranges of a restricted IP are
  // replaced in one transaction, because old and new ranges may overlap.
  const auto is_removal = [&](const nft::ElementView& element) {
    if (HasSourceRanges(element.set.set)) {
      return changes.deleted_firewall_ips.contains(FirewallIpOf(element));
    }
    // The restriction of port ranges is looked up after the range, because the range may belong to
    // another Service than single ports.
    if (element.set.set == kRangeFirewallIps) return changes.ended_ranges.contains(KeyOf(element));
    // A packet that was looked up before the switch is not translated, so it needs the reject.
    // After the switch, packets are translated and do not reach the reject, unless they are sent to
    // the address of their endpoint. Such packets reach the endpoint without translation, too.
    if (IsReject(element.set.set)) {
      return changes.adds_destinations && !changes.added.contains(KeyOf(element)) &&
             !changes.own_destinations.contains(AddressOf(element.set, element.key));
    }
    // If a pick finds no endpoint in its slot, the rules use the first slot. Therefore, the slots
    // of a group that stays are deleted with the switch.
    if (HasSlots(element.set.set)) return changes.deleted_groups.contains(GroupOf(element));
    // A packet that has picked an endpoint of a port looks up its address next. If the port has no
    // affinity any more, the rules cannot pick again.
    if (IsStickyEndpoint(element.set.set)) return freed_numbers.contains(StickyPortOf(element));
    if (!IsReachedThroughOthers(element.set.set)) return false;
    return !changes.added.contains(KeyOf(element)) &&
           !(element.set.set == kLocalSets &&
             ended_local_sets.contains(SharedKey(element.set, element.key)));
  };
  return Take(transaction, [&](nft::Verb verb, const nft::ElementView& element) {
    return verb == nft::Verb::kDelete && is_removal(element);
  });
}

std::string GroupKey(const nft::ElementView& slot) { return SharedKey(slot.set, GroupBytes(slot)); }

nft::Transaction TakeAdditions(nft::Transaction& transaction,
                               const absl::flat_hash_set<std::string>& groups_in_use) {
  const auto take = [&](bool slots) {
    Keys deleted;
    return Take(transaction, [&](nft::Verb verb, const nft::ElementView& element) {
      const uint8_t set = element.set.set;
      if (HasSlots(set) != slots) return false;
      if (!IsReachedThroughOthers(set) && !IsStickyEndpoint(set)) return false;
      if (verb == nft::Verb::kDelete) {
        deleted.insert(KeyOf(element));  // Deletions come first.
        return false;
      }
      return !deleted.contains(KeyOf(element)) &&
             !(slots && !groups_in_use.empty() && groups_in_use.contains(GroupKey(element)));
    });
  };
  nft::Transaction additions = take(/*slots=*/false);
  additions.AddElements(take(/*slots=*/true));
  return additions;
}

nft::Transaction TakeMovedPorts(nft::Transaction& transaction) {
  absl::flat_hash_set<std::string> ended;  // Ports and blocks of ranges. Deletions come first.
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (!HasRangePorts(element.set.set)) return;
    std::string key = SharedKey(element.set, element.key);
    if (verb == nft::Verb::kDelete) {
      ended.insert(std::move(key));
    } else {
      ended.erase(key);
    }
  });
  if (ended.empty()) return {};
  absl::flat_hash_set<std::string> excluded;  // As keys of `service-ips` and `range-ports`.
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    const uint8_t set = element.set.set;
    if (verb == nft::Verb::kDelete && (set == kServiceIps || set == kRangePorts)) {
      excluded.insert(SharedKey(element.set, element.key));
    } else if (verb == nft::Verb::kAdd && set == kFirewallIps) {
      excluded.insert(SharedKey({element.set.family, kServiceIps}, element.key));
    }
  });
  return Take(transaction, [&](nft::Verb verb, const nft::ElementView& element) {
    const auto [family, set] = element.set;
    if (verb != nft::Verb::kAdd || (set != kServiceIps && set != kRangePorts)) return false;
    const bool moves =
        ended.contains(BlockKey(element)) ||
        (set == kServiceIps && ended.contains(SharedKey({family, kRangePorts}, element.key)));
    return moves && !excluded.contains(SharedKey(element.set, element.key));
  });
}

void PutNewKeysFirst(nft::Transaction& transaction) {
  // No packet reads the marker.
  const auto keeps_order = [](uint8_t set) {
    return HasAddressRanges(set) || HasSourceRanges(set) || set == kMarker;
  };
  absl::flat_hash_map<Key, bool> deleted;  // Whether the key is added again.
  bool any_replaced = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (keeps_order(element.set.set)) return;
    if (verb == nft::Verb::kDelete) {
      deleted.emplace(KeyOf(element), false);
    } else if (!deleted.empty()) {  // Deletions come first.
      const auto found = deleted.find(KeyOf(element));
      if (found != deleted.end()) found->second = any_replaced = true;
    }
  });
  if (!any_replaced) return;
  nft::Transaction ordered = WithoutElements(transaction), pairs, deletions, others;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    const bool keeps = keeps_order(element.set.set);
    const auto found = keeps ? deleted.end() : deleted.find(KeyOf(element));
    const bool replaced = found != deleted.end() && found->second;
    if (verb == nft::Verb::kAdd) {
      if (replaced) pairs.Delete(element);
      (keeps ? others : replaced ? pairs : ordered).Add(element);
    } else if (!replaced) {
      (keeps ? others : deletions).Delete(element);
    }
  });
  for (nft::Transaction* part : {&pairs, &deletions, &others}) {
    ordered.AddElements(std::move(*part));
  }
  transaction = std::move(ordered);
}

void PutFirstSlotsFirst(nft::Transaction& transaction) {
  // Session affinity stores the endpoint of the first connection, so its slots are not moved.
  transaction.AddElements(Take(transaction, [](nft::Verb, const nft::ElementView& element) {
    const uint8_t set = element.set.set;
    return (HasEndpoints(set) && !IsFirstSlot(element)) || set == kMarker;
  }));
}

nft::Transaction TakeSourceRanges(nft::Transaction& transaction) {
  bool replaces_set[2] = {};
  for (const nft::ChainRepair& repair : transaction.repairs()) {
    // Both sets of source ranges are replaced together.
    replaces_set[Index(repair.family)] |=
        std::ranges::count(repair.remove_sets, repair.spec->sets[kFirewallSources].name) > 0;
  }
  Keys restricted;
  Keys restricted_before;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (!IsFirewallIps(element.set.set)) return;
    auto& keys = verb == nft::Verb::kAdd ? restricted : restricted_before;
    keys.insert(KeyOf(element));
  });
  for (const Key& key : restricted_before) restricted.erase(key);
  if (restricted.empty()) return {};
  return Take(transaction, [&](nft::Verb verb, const nft::ElementView& element) {
    return verb == nft::Verb::kAdd && HasSourceRanges(element.set.set) &&
           !replaces_set[Index(element.set.family)] && restricted.contains(FirewallIpOf(element));
  });
}

nft::Transaction TakeRestrictions(nft::Transaction& transaction, bool cluster_ips) {
  Keys excluded;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (verb == nft::Verb::kDelete && IsFirewallIps(element.set.set)) {
      excluded.insert(KeyOf(element));
    } else if (verb == nft::Verb::kAdd && HasSourceRanges(element.set.set)) {
      excluded.insert(FirewallIpOf(element));
    }
  });
  return Take(transaction, [&](nft::Verb verb, const nft::ElementView& element) {
    if (verb != nft::Verb::kAdd) return false;
    return (cluster_ips && element.set.set == kClusterIps) ||
           (IsFirewallIps(element.set.set) && !excluded.contains(KeyOf(element)));
  });
}

}  // namespace svcmap::proxy
