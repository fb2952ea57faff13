#include "proxy/desired/staging.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {
namespace {

using Side = EndpointSet PortRows::*;
constexpr Side kSides[] = {&PortRows::cluster, &PortRows::local};

size_t SlotsAndPairs(const ServiceRows& service) {
  size_t count = 0;
  for (const PortRows& port : service.ports) {
    if (port.affinity) continue;
    count += port.cluster.slots.size() + port.local.slots.size() + port.hairpins.size();
  }
  return count;
}

// A port with new groups.
struct NewPort {
  const PortRows* after;
  PortRows staged;  // The part that is staged.

  template <typename Fn>
  void ForEachList(Fn&& fn) {
    for (const Side side : kSides) {
      if ((staged.*side).group != 0) fn((staged.*side).slots, (after->*side).slots);
    }
    fn(staged.hairpins, after->hairpins);
  }
};

// The ports of `before` by the groups of their endpoint sets. Both families share the groups.
using PortsByGroup = absl::flat_hash_map<uint32_t, const PortRows*>;

PortsByGroup IndexGroups(const ServiceRows& before) {
  PortsByGroup ports;
  for (const PortRows& port : before.ports) {
    if (port.affinity) continue;
    for (const Side side : kSides) ports[(port.*side).group] = &port;
  }
  ports.erase(0);
  return ports;
}

std::optional<NewPort> NewGroups(const PortsByGroup& groups, const PortRows& after) {
  NewPort port{.after = &after,
               .staged = {.family = after.family,
                          .name = after.name,
                          .protocol = after.protocol,
                          .port = after.port,
                          .end_port = after.end_port}};
  bool is_new = false;
  for (const Side side : kSides) {
    const uint32_t group = (after.*side).group;
    if (group == 0) continue;
    const auto found = groups.find(group);
    if (found == groups.end()) {
      (port.staged.*side).group = group;
    } else if (IsStaged(*found->second)) {
      port.staged.*side = found->second->*side;
      port.staged.hairpins = found->second->hairpins;
    } else {
      continue;
    }
    is_new = true;
  }
  if (!is_new) return std::nullopt;
  const size_t pairs = std::min(port.staged.hairpins.size(), after.hairpins.size());
  port.staged.hairpins.assign(after.hairpins.begin(),
                              after.hairpins.begin() + static_cast<std::ptrdiff_t>(pairs));
  return port;
}

}  // namespace

bool IsStaged(const PortRows& port) {
  return !port.any && port.addresses.empty() && !port.affinity &&
         (port.cluster.group != 0 || port.local.group != 0);
}

const EndpointSet* FindStaged(const ServiceRows& service, const PortRows& port, bool local,
                              const std::vector<EndpointAddress>& wanted) {
  for (auto it = service.ports.rbegin(); it != service.ports.rend(); ++it) {
    const PortRows& staged = *it;
    if (!IsStaged(staged)) break;  // Staged ports come last.
    const EndpointSet& set = local ? staged.local : staged.cluster;
    if (set.group == 0 || set.slots.size() > wanted.size() ||
        IdentityOf(staged) != IdentityOf(port)) {
      continue;
    }
    if (std::equal(set.slots.begin(), set.slots.end(), wanted.begin())) return &set;
  }
  return nullptr;
}

std::optional<ServiceRows> NextPortion(const ServiceRows* before, const ServiceRows& after,
                                       size_t portion) {
  if (after.ports.size() > kMaxStagedPorts || SlotsAndPairs(after) <= portion) return std::nullopt;
  ServiceRows rows;
  if (before != nullptr) rows = *before;
  const PortsByGroup groups = IndexGroups(rows);
  std::vector<NewPort> ports;
  size_t left = 0;
  for (const PortRows& port : after.ports) {
    if (port.affinity) continue;
    std::optional<NewPort> added = NewGroups(groups, port);
    if (!added) continue;
    added->ForEachList([&](const auto& has, const auto& all) { left += all.size() - has.size(); });
    ports.push_back(*std::move(added));
  }
  if (left <= portion) return std::nullopt;

  std::erase_if(rows.ports, IsStaged);
  for (NewPort& port : ports) {
    port.ForEachList([&](auto& has, const auto& all) {
      const size_t more = std::min(portion, all.size() - has.size());
      const auto next = all.begin() + static_cast<std::ptrdiff_t>(has.size());
      has.insert(has.end(), next, next + static_cast<std::ptrdiff_t>(more));
      portion -= more;
    });
    for (const Side side : kSides) {
      if ((port.staged.*side).slots.empty()) port.staged.*side = {};
    }
    if (IsStaged(port.staged)) rows.ports.push_back(std::move(port.staged));
  }
  return rows;
}

}  // namespace svcmap::proxy
