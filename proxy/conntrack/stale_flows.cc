#include "proxy/conntrack/stale_flows.h"

#include <algorithm>

namespace svcmap::proxy {

size_t StaleFlows::Add(const FlowDestination& destination, Place place,
                       const std::vector<EndpointAddress>& endpoints) {
  const size_t number = targets_.size();
  const auto target = static_cast<uint32_t>(number);
  const IpAddress& address = destination.first.address;
  targets_.push_back({place, destination.is_range(), &endpoints});
  families_[Index(address.family())] = true;
  if (destination.is_range()) {
    ranges_[address].push_back({destination.first.port, destination.last, target});
  } else {
    at_[destination.first].push_back(target);
  }
  return number;
}

StaleFlows::Numbers StaleFlows::TargetsOf(const nft::FlowEnd& destination) const {
  const auto exact = at_.find(destination);
  Numbers numbers = exact == at_.end() ? Numbers() : exact->second;
  if (ranges_.empty() || AnyCurrent(numbers) || excluded_.contains(destination)) return numbers;
  const auto ranges = ranges_.find(destination.address);
  if (ranges == ranges_.end()) return numbers;
  for (const Range& range : ranges->second) {
    if (range.first <= destination.port && destination.port <= range.last) {
      numbers.push_back(range.target);
    }
  }
  return numbers;
}

bool StaleFlows::AnyCurrent(const Numbers& targets) const {
  return std::any_of(targets.begin(), targets.end(),
                     [this](uint32_t number) { return targets_[number].place == Place::kCurrent; });
}

bool StaleFlows::IsEndpoint(const nft::FlowEnd& answers, const nft::FlowEnd& destination,
                            bool range, const std::vector<EndpointAddress>& endpoints) {
  const EndpointAddress wanted{answers.address, range ? uint16_t{0} : answers.port};
  const auto found = std::lower_bound(endpoints.begin(), endpoints.end(), wanted);
  if (found == endpoints.end() || found->ip != answers.address) return false;
  return range ? answers.port == destination.port : found->port == answers.port;
}

// Returns true for a flow without translation whose source is a current Service address. The first
// packet of such a flow is a reply to a packet that arrived before the rules existed. As long as
// this flow exists, the client's packets match the flow as replies and are not translated.
bool StaleFlows::IsTurnedAround(const nft::Flow& flow) const {
  if (flow.original.zone != 0 || flow.reply.destination != flow.original.source ||
      flow.reply.source != flow.original.destination) {
    return false;
  }
  return AnyCurrent(TargetsOf(flow.original.source));
}

bool StaleFlows::IsStale(const nft::Flow& flow) {
  if (IsTurnedAround(flow)) return true;
  const nft::FlowEnd& destination = flow.original.destination;
  const Numbers targets = TargetsOf(destination);
  if (targets.empty()) return false;
  const nft::FlowEnd& answers = flow.reply.source;
  for (const uint32_t number : targets) {
    Target& target = targets_[number];
    if (IsEndpoint(answers, destination, target.range, *target.endpoints)) {
      target.kept = true;
      return false;
    }
  }
  const bool translated = answers != destination;
  // In another conntrack zone, a virtual switch may track the same packets before translation.
  return translated || (AnyCurrent(targets) && flow.original.zone == 0);
}

}  // namespace svcmap::proxy
