#include "proxy/diff/phases.h"

#include <algorithm>
#include <bitset>
#include <string>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
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

bool IsReject(uint8_t set) {
  return set == kNoEndpointServices || set == kNoEndpointNodePorts ||
         set == kNoEndpointRangePorts || set == kNoEndpointRangeBlocks;
}

bool HasPorts(uint8_t set) { return set == kServiceIps || HasRangePorts(set); }

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

Key GroupOf(const nft::ElementView& slot) {
  return KeyIn(slot.set, slot.key.first(slot.key.size() - kSlotSize));
}

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

Key RangeFirewallIpOf(const nft::ElementView& ports) {
  return KeyIn({ports.set.family, kRangeFirewallIps}, RangeFirewallKey(ports));
}

// Returns a transaction with the same changes of tables and without elements.
nft::Transaction WithoutElements(const nft::Transaction& transaction) {
  nft::Transaction copy;
  for (const Family family : transaction.drops()) copy.DropTable(family);
  for (const auto& creation : transaction.creations()) copy.CreateTable(creation);
  for (const nft::ChainRepair& repair : transaction.repairs()) copy.RepairChains(repair);
  return copy;
}

// Sets in which the order of deletions and additions matters.
bool KeepsOrder(uint8_t set) { return HasAddressRanges(set) || HasSourceRanges(set); }

class Splitter {
 public:
  Splitter(nft::Transaction all, const PhaseContext& context)
      : all_(std::move(all)),
        context_(context),
        large_(all_.element_count() > kMaxElementsTogether) {
    LookAtRepairs();
    all_.ForEachElement([this](nft::Verb verb, const nft::ElementView& element) {
      verb == nft::Verb::kDelete ? LookAtDeletion(element) : LookAtAddition(element);
    });
  }

  Phases Split() && {
    Phases phases;
    const bool removes = (adds_ || deletes_others_) && deletes_reached_;
    const bool adds_first =
        !(created_[0].all() && created_[1].all()) &&
        (large_ || adds_restrictions_ || !ended_.empty() || MasqueradesClusterIps());
    if (!removes && !adds_first && deleted_.empty()) {
      phases.change = std::move(all_);
      return phases;
    }
    nft::Transaction& sources = phases.first[0].rows;
    nft::Transaction& restrictions = phases.first[1].rows;
    nft::Transaction& others = phases.first[2].rows;
    nft::Transaction slots, moved;                       // To add to `others`.
    nft::Transaction added, replaced, deleted, ordered;  // The change.
    all_.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
      const uint8_t set = element.set.set;
      const bool early = adds_first && !created_[Index(element.set.family)][set];
      if (verb == nft::Verb::kDelete) {
        if (early && IsEarlySource(element)) {
          sources.Delete(element);
        } else if (removes && IsRemoval(element)) {
          phases.removals.Delete(element);
        } else if (KeepsOrder(set)) {
          ordered.Delete(element);
        } else if (!IsReplaced(element)) {
          deleted.Delete(element);
        }
      } else if (early && IsEarlySource(element)) {
        sources.Add(element);
      } else if (early && IsEarlyRestriction(element)) {
        restrictions.Add(element);
        phases.first[1].await_packets |= IsFirewallIps(set);
      } else if (early && IsMovedPort(element)) {
        moved.Add(element);
      } else if (KeepsOrder(set)) {
        ordered.Add(element);
      } else if (IsReplaced(element)) {
        replaced.Delete(element);
        replaced.Add(element);
      } else if (early && (IsReachedThroughOthers(set) || HasStickyEndpoints(set))) {
        // No packet reaches the element before other elements of the change. A new slot of a group
        // in use is reached earlier, but after everything that the slot leads to.
        (HasSlots(set) ? slots : others).Add(element);
      } else {
        added.Add(element);
      }
    });
    others.AddElements(std::move(slots));  // A pick of a slot finds what the slot leads to.
    phases.change = WithoutElements(all_);
    phases.first[2].await_packets = !moved.empty();
    if (large_ || !moved.empty()) {
      others.AddElements(std::move(moved));
    } else {
      phases.change.AddElements(std::exchange(others, {}));
    }
    for (nft::Transaction* part : {&added, &replaced, &deleted, &ordered}) {
      phases.change.AddElements(std::move(*part));
    }
    return phases;
  }

 private:
  void LookAtDeletion(const nft::ElementView& element) {
    const uint8_t set = element.set.set;
    const bool reached = IsReachedThroughOthers(set);
    deletes_reached_ |= reached || HasSourceRanges(set) || IsReject(set) || HasRangePorts(set);
    deletes_others_ |= !reached && !HasSourceRanges(set);
    if (HasSlots(set) && IsFirstSlot(element)) deleted_groups_.insert(GroupOf(element));
    if (IsReject(set)) rejected_.insert(AddressOf(element.set, element.key));
    if (HasRangePorts(set)) {
      ended_.insert(SharedKey(element.set, element.key));
      ended_ranges_.insert(RangeFirewallIpOf(element));
    }
    if (!KeepsOrder(set)) deleted_.emplace(KeyOf(element), false);
  }

  // Deletions come first.
  void LookAtAddition(const nft::ElementView& element) {
    const auto [family, set] = element.set;
    adds_ = true;
    if (HasSlots(set) && IsFirstSlot(element)) deleted_groups_.erase(GroupOf(element));
    adds_destinations_ |= HasPorts(set) || IsReject(set);
    adds_ports_[Index(family)] |= HasPorts(set);
    adds_cluster_ips_[Index(family)] |= set == kClusterIps;
    adds_restrictions_ |= IsFirewallIps(set) || HasSourceRanges(set);
    if (!rejected_.empty() && (HasEndpoints(set) || HasStickyEndpoints(set))) {
      const Key address = AddressOf(element.set, element.data);
      if (rejected_.contains(address)) own_destinations_.insert(address);
    }
    if (HasRangePorts(set)) {
      ended_.erase(SharedKey(element.set, element.key));
      ended_ranges_.erase(RangeFirewallIpOf(element));
    }
    const auto found = deleted_.empty() ? deleted_.end() : deleted_.find(KeyOf(element));
    if (found != deleted_.end()) {
      found->second = true;
    } else if (IsFirewallIps(set)) {
      restricted_.insert(KeyOf(element));
    }
    if (HasSourceRanges(set)) with_new_sources_.insert(FirewallIpOf(element));
    if (set == kServiceIps && CreatesSources(family) && found == deleted_.end() &&
        !LeavesRange(element)) {
      new_ports_.insert(KeyIn({family, kFirewallIps}, element.key));
    }
  }

  void LookAtRepairs() {
    for (const auto& creation : all_.creations()) created_[Index(creation.family)].set();
    for (const nft::ChainRepair& repair : all_.repairs()) {
      if (repair.add_sets.empty() && repair.remove_sets.empty()) continue;
      const size_t sets = std::min<size_t>(repair.spec->sets.size(), kRowSetCount);
      for (size_t set = 0; set < sets; ++set) {
        const std::string& name = repair.spec->sets[set].name;
        if (absl::c_linear_search(repair.add_sets, name) ||
            absl::c_linear_search(repair.remove_sets, name)) {
          created_[Index(repair.family)].set(set);
        }
      }
    }
  }

  bool CreatesSources(Family family) const {
    return std::ranges::any_of(kSourceSets,
                               [&](SetIndex set) { return created_[Index(family)][set]; });
  }

  // Returns true if the key of the element is deleted and added again.
  bool IsReplaced(const Key& key) const {
    const auto found = deleted_.find(key);
    return found != deleted_.end() && found->second;
  }
  bool IsReplaced(const nft::ElementView& element) const { return IsReplaced(KeyOf(element)); }

  bool MasqueradesClusterIps() const {
    return context_.masquerades_cluster_ips &&
           ((adds_cluster_ips_[0] && adds_ports_[0]) || (adds_cluster_ips_[1] && adds_ports_[1]));
  }

  bool IsRemoval(const nft::ElementView& element) const {
    const uint8_t set = element.set.set;
    // If a load balancer IP is no longer restricted, its source ranges must be deleted after its
    // restriction, because packets look up the restriction first. Ranges of a restricted IP are
    // replaced in one transaction, because old and new ranges may overlap.
    if (HasSourceRanges(set)) {
      const auto found = deleted_.find(FirewallIpOf(element));
      return found != deleted_.end() && !found->second;
    }
    // The restriction of port ranges is looked up after the range, because the range may belong to
    // another Service than single ports.
    if (set == kRangeFirewallIps) return ended_ranges_.contains(KeyOf(element));
    // A packet that was looked up before the switch is not translated, so it needs the reject.
    // After the switch, packets are translated and do not reach the reject, unless they are sent to
    // the address of their endpoint. Such packets reach the endpoint without translation, too.
    if (IsReject(set)) {
      return adds_destinations_ && !IsReplaced(element) &&
             !own_destinations_.contains(AddressOf(element.set, element.key));
    }
    // If a pick finds no endpoint in its slot, the rules use the first slot. Therefore, the slots
    // of a group that stays are deleted with the switch.
    if (HasSlots(set)) return deleted_groups_.contains(GroupOf(element));
    const auto set_ends = [&] { return context_.ended_sets.contains(EndedSets::KeyOf(element)); };
    // A packet that has picked an endpoint of a port looks up its address next. If the endpoint set
    // ends, the rules cannot pick another endpoint of the set.
    if (HasStickyEndpoints(set)) return set_ends();
    // Packets to an ended local set would reach former endpoints until the removal.
    return IsReachedThroughOthers(set) && !IsReplaced(element) &&
           !(set == kLocalSets && set_ends());
  }

  // Within one commit, the kernel makes new ranges visible after all other elements, so packets to
  // a newly restricted IP would be dropped. Ranges of a failed plan, which no packet reaches
  // without the restriction, are deleted in the same commit, because new ranges may overlap with
  // them.
  bool IsEarlySource(const nft::ElementView& element) const {
    return HasSourceRanges(element.set.set) && restricted_.contains(FirewallIpOf(element));
  }

  // Packets look up restrictions and clusterIPs before the Service. If one commit adds them and the
  // Service between these lookups, a packet reaches the Service although its source may not use it,
  // or without masquerade.
  bool IsEarlyRestriction(const nft::ElementView& element) const {
    if (element.set.set == kClusterIps) return MasqueradesClusterIps();
    return restricted_.contains(KeyOf(element)) && !IsRestrictedByChange(KeyOf(element));
  }

  // Returns true if the change restricts the load balancer IP, or replaces its restriction. A port
  // that no packet could use before is restricted earlier, although its source ranges are new.
  bool IsRestrictedByChange(const Key& ip) const {
    return IsReplaced(ip) || (restricted_.contains(ip) && with_new_sources_.contains(ip) &&
                              CreatesSources(ip.set.family) && !new_ports_.contains(ip));
  }

  // Returns true if the change deletes the port from a map of ranges.
  bool LeavesRange(const nft::ElementView& port) const {
    return ended_.contains(BlockKey(port)) ||
           ended_.contains(SharedKey({port.set.family, kRangePorts}, port.key));
  }

  // A packet is looked up in `service-ips`, `range-ports` and `range-blocks`, in this order. If one
  // commit deletes the old element and adds the new one in an earlier map between two of these
  // lookups, the packet finds neither. A port that the change restricts is not moved, because the
  // restriction must not become active after the port.
  bool IsMovedPort(const nft::ElementView& element) const {
    const auto [family, set] = element.set;
    if (ended_.empty() || (set != kServiceIps && set != kRangePorts)) return false;
    if (set == kServiceIps && IsRestrictedByChange(KeyIn({family, kFirewallIps}, element.key))) {
      return false;
    }
    const bool moves =
        set == kServiceIps ? LeavesRange(element) : ended_.contains(BlockKey(element));
    return moves && !IsReplaced(element);
  }

  nft::Transaction all_;
  const PhaseContext& context_;
  const bool large_;
  std::bitset<kRowSetCount> created_[2];  // Sets whose elements cannot be added before `change`.
  bool adds_ = false;
  bool adds_destinations_ = false;
  bool adds_restrictions_ = false;
  bool adds_ports_[2] = {}, adds_cluster_ips_[2] = {};
  bool deletes_reached_ = false;  // Elements that may have to be deleted after the change.
  bool deletes_others_ = false;   // Elements that packets do not reach through other rows.
  absl::flat_hash_map<Key, bool> deleted_;  // Whether the key is added again.
  Keys deleted_groups_;
  Keys rejected_;                           // Addresses of deleted rejects.
  Keys own_destinations_;                   // Those that added endpoints have, too.
  absl::flat_hash_set<std::string> ended_;  // Ports and blocks of ranges, as SharedKey.
  Keys ended_ranges_;      // As RangeFirewallIpOf: destinations of which only elements are deleted.
  Keys restricted_;        // Newly restricted load balancer IPs.
  Keys with_new_sources_;  // Load balancer IPs with added source ranges.
  // Of added ports that no packet could use before, as the key of their restriction. Only if the
  // change replaces the set of source ranges.
  Keys new_ports_;
};

}  // namespace

Phases SplitIntoPhases(nft::Transaction all, const PhaseContext& context) {
  return Splitter(std::move(all), context).Split();
}

void PutFirstSlotsFirst(nft::Transaction& transaction) {
  nft::Transaction sorted = WithoutElements(transaction), last;
  // Session affinity stores the endpoint of the first connection, so its slots are not moved.
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    const uint8_t set = element.set.set;
    const bool moves = (HasEndpoints(set) && !IsFirstSlot(element)) || set == kMarker;
    nft::Transaction& to = moves ? last : sorted;
    verb == nft::Verb::kAdd ? to.Add(element) : to.Delete(element);
  });
  sorted.AddElements(std::move(last));
  transaction = std::move(sorted);
}

}  // namespace svcmap::proxy
