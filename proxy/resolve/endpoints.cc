#include "proxy/resolve/endpoints.h"

#include <algorithm>

namespace svcmap::proxy {
namespace {

struct Candidate {
  EndpointAddress address;
  EndpointConditions conditions;
  bool local;
};

// Duplicates lie together, the one that counts first: not terminating, then ready, then serving.
// The last three make the choice independent of the order of arrival.
bool Before(const Candidate& a, const Candidate& b) {
  if (a.address != b.address) return a.address < b.address;
  const auto rank = [](const Candidate& c) {
    return (c.conditions.terminating ? 8 : 0) + (c.conditions.ready ? 0 : 4) +
           (c.conditions.serving ? 0 : 2) + (c.local ? 0 : 1);
  };
  return rank(a) < rank(b);
}

std::vector<Candidate> Merge(const ServiceEntry& entry, Family family, const ServicePort& port) {
  std::vector<Candidate> candidates;
  for (const auto& slice : entry.slices) {
    if (slice->family != family) continue;
    for (const EndpointPort& slice_port : slice->ports) {
      if (slice_port.name != port.name || slice_port.protocol != port.protocol) continue;
      for (const Endpoint& endpoint : slice->endpoints) {
        candidates.push_back(
            {{endpoint.address, slice_port.port}, endpoint.conditions, endpoint.local});
      }
    }
  }
  std::sort(candidates.begin(), candidates.end(), Before);
  const auto last =
      std::unique(candidates.begin(), candidates.end(),
                  [](const auto& a, const auto& b) { return a.address == b.address; });
  candidates.erase(last, candidates.end());
  return candidates;
}

}  // namespace

ResolvedEndpoints ResolveEndpoints(const ServiceEntry& entry, Family family,
                                   const ServicePort& port) {
  const std::vector<Candidate> candidates = Merge(entry, family, port);
  const bool any_ready = std::any_of(candidates.begin(), candidates.end(),
                                     [](const Candidate& c) { return c.conditions.ready; });
  ResolvedEndpoints resolved;
  for (const Candidate& c : candidates) {
    const bool usable =
        any_ready ? c.conditions.ready : c.conditions.serving && c.conditions.terminating;
    if (!usable) continue;
    resolved.usable.push_back(c.address);
    if (c.local) resolved.local.push_back(c.address);
  }
  return resolved;
}

}  // namespace svcmap::proxy
