#include "proxy/reconcile/large_services.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "proxy/diff/removals.h"
#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {
namespace {

size_t ElementCount(const ServiceRows& rows) {
  size_t count = 0;
  for (const PortRows& port : rows.ports) {
    count += port.addresses.size() + port.cluster.slots.size() + port.local.slots.size();
  }
  return count;
}

// Identifies a group: affinity, family and number.
using Group = std::tuple<bool, Family, uint32_t>;

template <typename Fn>
void ForEachGroup(const ServiceRows& rows, Fn&& fn) {
  for (const PortRows& port : rows.ports) {
    for (const EndpointSet* set : {&port.cluster, &port.local}) {
      if (!set->slots.empty())
        fn(port, *set, Group(port.affinity.has_value(), port.family, set->group));
    }
  }
}

// A group belongs to the name of a port. If the name moves to another port number, the endpoints of
// the group and the port must change in one commit, because the endpoints may have the target port
// of the previous number.
bool GroupsKeepTheirPorts(const ServiceRows& before, const ServiceRows& after) {
  absl::flat_hash_map<Group, uint16_t> ports;
  ForEachGroup(before, [&](const PortRows& port, const EndpointSet&, const Group& group) {
    ports.emplace(group, port.port);
  });
  bool keep = true;
  ForEachGroup(after, [&](const PortRows& port, const EndpointSet&, const Group& group) {
    const auto found = ports.find(group);
    keep &= found == ports.end() || found->second == port.port;
  });
  return keep;
}

std::string UnitOf(const PortRows& port, const EndpointSet& set) {
  return GroupUnit(EndpointRow(SlotsOf(port), set.group, 0, set.slots[0]).view());
}

void AddUnits(const ServiceRows& rows, absl::flat_hash_set<std::string>& units) {
  for (const PortRows& port : rows.ports) {
    for (const ReachedAt& at : port.addresses) {
      units.insert(PortUnit(port.family, ServiceIpKey(at.address, port.protocol, at.port).bytes()));
    }
  }
  ForEachGroup(rows, [&](const PortRows& port, const EndpointSet& set, const Group&) {
    if (port.affinity) return;
    units.insert(UnitOf(port, set));
  });
}

}  // namespace

absl::flat_hash_set<std::string> LargeServiceUnits(const Applied::ServiceChanges& changes,
                                                   const Applied& applied) {
  static const ServiceRows kNoRows;
  absl::flat_hash_set<std::string> units;
  for (const auto& [key, after] : changes) {
    const ServiceRows* applied_rows = applied.Find(key);
    const ServiceRows& before = applied_rows != nullptr ? *applied_rows : kNoRows;
    if (std::max(ElementCount(before), ElementCount(after)) <= kMaxElementsTogether) continue;
    if (!GroupsKeepTheirPorts(before, after)) continue;
    AddUnits(before, units);
    AddUnits(after, units);
  }
  return units;
}

absl::flat_hash_set<std::string> AffinityGroupsInUse(const Applied::ServiceChanges& changes,
                                                     const Applied& applied) {
  absl::flat_hash_set<std::string> groups;
  for (const auto& [key, after] : changes) {
    const ServiceRows* before = applied.Find(key);
    if (before == nullptr) continue;
    ForEachGroup(*before, [&](const PortRows& port, const EndpointSet& set, const Group&) {
      if (port.affinity) groups.insert(UnitOf(port, set));
    });
  }
  return groups;
}

}  // namespace svcmap::proxy
