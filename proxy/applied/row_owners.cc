#include "proxy/applied/row_owners.h"

#include <xxhash.h>

#include <algorithm>
#include <tuple>

#include "proxy/ruleset/table.h"

namespace svcmap::proxy {
namespace {

struct Anchor {
  SetIndex set;
  size_t size;  // Number of leading key bytes that identify the Service.
};

Anchor AnchorOf(uint8_t set, size_t key_size) {
  switch (set) {
    case kServiceIps:
    case kNoEndpointServices:
    case kNoEndpointNodePorts:
    case kFirewallIps:
      return {kServiceIps, key_size};
    case kRangePorts:
    case kNoEndpointRangePorts:
      return {kRangePorts, key_size};
    case kRangeBlocks:
    case kNoEndpointRangeBlocks:
      return {kRangeBlocks, key_size};
    case kRangeFirewallIps:
      return {kRangeFirewallIps, key_size};
    case kLocalSets:
      return {kLocalSets, key_size};
    case kEndpoints:
    case kAffinitySlots:
    case kRangeEndpoints:
      return {static_cast<SetIndex>(set), key_size - sizeof(uint32_t)};  // Without the slot.
    case kAffinityEndpoints:
    case kAffinityLocalEndpoints:
    case kRangeAffinityEndpoints:
    case kRangeAffinityLocalEndpoints:
      return {kAffinityEndpoints, sizeof(uint16_t)};  // Number of the port.
    default:
      return {kSetCount, 0};
  }
}

// Returns 0 for rows without an anchor.
uint64_t AnchorHash(nft::SetRef set, std::span<const uint8_t> key) {
  if (key.size() < sizeof(uint32_t)) return 0;
  const Anchor anchor = AnchorOf(set.set, key.size());
  if (anchor.set == kSetCount) return 0;
  return XXH3_64bits_withSeed(key.data(), anchor.size,
                              static_cast<XXH64_hash_t>(anchor.set << 1 | Index(set.family)));
}

template <typename Fn>
void ForEachAnchor(const ServiceRows& rows, Fn&& fn) {
  uint64_t last = 0;
  const auto add = [&](const Row& row) {
    const uint64_t anchor = AnchorHash(row.set, row.key.bytes());
    if (anchor != 0 && anchor != last) fn(anchor);
    last = anchor;
  };
  static const std::string kNoKey;  // The comments do not matter.
  for (const Row& row : OwnRows(kNoKey, rows)) add(row);
  ForEachSlot(rows, 0, 1, add);  // All slots of a group have the same anchor.
}

// Returns true if the rows of both ports have the same anchors.
bool SameAnchors(const PortRows& a, const PortRows& b) {
  const auto fields = [](const PortRows& port) {
    return std::tie(port.family, port.protocol, port.port, port.end_port, port.addresses, port.any,
                    port.cluster.group, port.local.group);
  };
  // The keys of `local-sets` are descriptors.
  const auto descriptors = [](const PortRows& port) {
    return std::tuple(port.internal_local, port.pick_by, port.cluster.slots.size(),
                      port.local.slots.size(), port.affinity ? port.affinity->timer : 0);
  };
  const auto number = [](const PortRows& port) {
    return port.affinity ? port.affinity->port_number : 0;
  };
  return fields(a) == fields(b) && number(a) == number(b) &&
         (a.local.group == 0 || descriptors(a) == descriptors(b));
}

}  // namespace

void RowOwners::Replace(const std::string& key, const ServiceRows& before,
                        const ServiceRows& after) {
  if (std::ranges::equal(before.ports, after.ports, SameAnchors)) return;
  Remove(key, before);
  Add(key, after);
}

void RowOwners::Add(const std::string& key, const ServiceRows& rows) {
  ForEachAnchor(rows, [&](uint64_t anchor) { owners_[anchor] = &key; });
}

void RowOwners::Remove(const std::string& key, const ServiceRows& rows) {
  ForEachAnchor(rows, [&](uint64_t anchor) {
    const auto found = owners_.find(anchor);
    if (found != owners_.end() && found->second == &key) owners_.erase(found);
  });
}

const std::string* RowOwners::Find(nft::SetRef set, std::span<const uint8_t> row_key) const {
  const auto found = owners_.find(AnchorHash(set, row_key));
  return found == owners_.end() ? nullptr : found->second;
}

}  // namespace svcmap::proxy
