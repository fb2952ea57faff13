#include "proxy/conntrack/stale_flows.h"

#include <algorithm>

namespace svcmap::proxy {

size_t StaleFlows::Add(const nft::FlowEnd& destination, Place place,
                       const std::vector<EndpointAddress>& endpoints) {
  const size_t number = targets_.size();
  targets_.push_back({place, &endpoints});
  families_[Index(destination.address.family())] = true;
  at_[destination].push_back(static_cast<uint32_t>(number));
  return number;
}

// Returns true for a flow without translation whose source is a current Service address. The first
// packet of such a flow is a reply to a packet that arrived before the rules existed. As long as
// this flow exists, the client's packets match the flow as replies and are not translated.
bool StaleFlows::IsTurnedAround(const nft::Flow& flow) const {
  if (flow.original.zone != 0 || flow.reply.destination != flow.original.source ||
      flow.reply.source != flow.original.destination) {
    return false;
  }
  const auto found = at_.find(flow.original.source);
  return found != at_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [this](uint32_t number) { return targets_[number].place == Place::kCurrent; });
}

bool StaleFlows::IsStale(const nft::Flow& flow) {
  if (IsTurnedAround(flow)) return true;
  const auto found = at_.find(flow.original.destination);
  if (found == at_.end()) return false;
  const nft::FlowEnd& answers = flow.reply.source;
  bool current = false;
  for (const uint32_t number : found->second) {
    Target& target = targets_[number];
    current |= target.place == Place::kCurrent;
    if (std::binary_search(target.endpoints->begin(), target.endpoints->end(),
                           EndpointAddress{answers.address, answers.port})) {
      target.kept = true;
      return false;
    }
  }
  const bool translated = answers != flow.original.destination;
  // In another conntrack zone, a virtual switch may track the same packets before translation.
  return translated || (current && flow.original.zone == 0);
}

}  // namespace svcmap::proxy
