#include "proxy/conntrack/udp_flows.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace svcmap::proxy {
namespace {

using Destinations = std::vector<FlowDestination>;

// Returns the destinations that are in `a` but not in `b`.
Destinations Difference(const Destinations& a, const Destinations& b) {
  Destinations difference;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(difference));
  return difference;
}

nft::FlowEnd KeyOf(const FlowDestination& destination) {
  return {destination.first.address, destination.is_range() ? uint16_t{0} : destination.first.port};
}

// Returns true if the flow's replies come from an endpoint in `endpoints`.
bool IsEndpoint(const nft::Flow& flow, bool range, const std::vector<EndpointAddress>& endpoints) {
  const nft::FlowEnd& answers = flow.reply.source;
  const EndpointAddress wanted{answers.address, range ? uint16_t{0} : answers.port};
  const auto found = std::lower_bound(endpoints.begin(), endpoints.end(), wanted);
  if (found == endpoints.end() || found->ip != answers.address) return false;
  return range ? answers.port == flow.original.destination.port : found->port == answers.port;
}

}  // namespace

UdpPorts MakeUdpPorts(const ServiceEntry* entry, const ServiceRows* rows) {
  UdpPorts ports;
  if (entry == nullptr) return ports;
  static const ServiceRows kNone;
  for (const PortRows& port : (rows != nullptr ? *rows : kNone).ports) {
    if (port.protocol != Protocol::kUdp || port.addresses.empty()) continue;
    std::vector<FlowDestination>& destinations = ports[{port.family, port.name}].destinations;
    for (const ReachedAt& at : port.addresses) {
      destinations.emplace_back(nft::FlowEnd{at.address, at.port}, port.end_port);
    }
  }
  for (const auto& slice : entry->slices) {
    for (const EndpointPort& port : slice->ports) {
      if (port.protocol == Protocol::kUdp) ports[{slice->family, port.name}];
    }
  }
  if (ports.empty()) return ports;
  const SlicePorts slice_ports(*entry);
  for (auto& [id, port] : ports) {
    std::sort(port.destinations.begin(), port.destinations.end());
    port.destinations.erase(std::unique(port.destinations.begin(), port.destinations.end()),
                            port.destinations.end());
    port.endpoints = ServingEndpoints(slice_ports, id.first, id.second, Protocol::kUdp);
  }
  return ports;
}

void UdpFlows::Update(const std::string& key, UdpPorts ports) {
  if (ports.empty() && !services_.contains(key)) return;
  Service& service = services_[key];
  service.key = key;
  for (const auto& [id, port] : service.ports) ports.try_emplace(id);
  for (const auto& [id, now] : ports) {
    Port& port = service.ports[id];
    port.service = &service;
    const UdpPort& before = port.now;
    if (now.destinations.empty() && before.destinations.empty() && port.former == 0) continue;
    due_ |= now.destinations != before.destinations ||
            !std::ranges::includes(now.endpoints, before.endpoints) ||
            (before.endpoints.empty() && !now.endpoints.empty());
    for (const FlowDestination& lost : Difference(before.destinations, now.destinations)) {
      MakeFormer(lost, port);
    }
  }
  for (auto& [id, now] : ports) {
    Port& port = service.ports[id];
    for (const FlowDestination& added : Difference(now.destinations, port.now.destinations)) {
      Add(added, port);
    }
    port.now = std::move(now);
  }
  DropUnused(service);
}

void UdpFlows::Add(const FlowDestination& destination, Port& port) {
  places_[KeyOf(destination)].push_back({destination, &port});
  ++destinations_[Index(destination.first.address.family())];
  RemoveFormer(destination,
               [&](const Place& place) { return place.port->service == port.service; });
}

void UdpFlows::MakeFormer(const FlowDestination& destination, Port& port) {
  for (Place& place : places_.at(KeyOf(destination))) {
    if (place.port != &port || place.destination != destination || !place.current) continue;
    place.current = false;
    place.kept = true;
    ++port.former;
  }
  former_.insert(destination);
}

template <typename Unused>
void UdpFlows::RemoveFormer(const FlowDestination& destination, const Unused& unused) {
  const auto found = places_.find(KeyOf(destination));
  size_t others = 0;  // Number of other former places of the destination.
  auto& places = found->second;
  const auto end = std::remove_if(places.begin(), places.end(), [&](const Place& place) {
    if (place.current || place.destination != destination) return false;
    if (!unused(place)) {
      ++others;
      return false;
    }
    --place.port->former;
    --destinations_[Index(destination.first.address.family())];
    return true;
  });
  places.erase(end, places.end());
  if (places.empty()) places_.erase(found);
  if (others == 0) former_.erase(destination);
}

void UdpFlows::DropUnused(Service& service) {
  std::erase_if(service.ports, [](const auto& port) {
    return port.second.now.destinations.empty() && port.second.former == 0;
  });
  if (service.ports.empty()) services_.erase(std::string(service.key));
}

void UdpFlows::Start() {
  due_ = false;
  for (const FlowDestination& destination : former_) {
    for (Place& place : places_.at(KeyOf(destination))) place.kept = place.current;
  }
}

void UdpFlows::Finish() {
  absl::flat_hash_set<Service*> services;
  const Destinations former(former_.begin(), former_.end());
  for (const FlowDestination& destination : former) {
    RemoveFormer(destination, [&](const Place& place) {
      if (!place.kept) services.insert(place.port->service);
      return !place.kept;
    });
  }
  for (Service* service : services) DropUnused(*service);
}

absl::InlinedVector<UdpFlows::Place*, 2> UdpFlows::PlacesOf(const nft::FlowEnd& end) {
  absl::InlinedVector<Place*, 2> current, former;
  const auto add = [&](Place& place) { (place.current ? current : former).push_back(&place); };
  if (const auto exact = places_.find(end); exact != places_.end()) {
    for (Place& place : exact->second) {
      if (!place.destination.is_range()) add(place);
    }
  }
  if (!current.empty()) return current;
  if (const auto ranges = places_.find({end.address, 0}); ranges != places_.end()) {
    for (Place& place : ranges->second) {
      const FlowDestination& range = place.destination;
      if (range.first.port <= end.port && end.port <= range.last) add(place);
    }
  }
  return current.empty() ? former : current;
}

bool UdpFlows::IsStale(const nft::Flow& flow) {
  const bool translated = flow.reply.source != flow.original.destination;
  const auto is_current = [](const auto& places) {
    return !places.empty() && places.front()->current;
  };
  // In another conntrack zone, a virtual switch may track the same packets before translation.
  const bool untranslated = !translated && flow.original.zone == 0;
  // The first packet of a flow without translation whose source is a current Service address is a
  // reply to a packet that arrived before the rules existed. As long as this flow exists, the
  // client's packets match the flow as replies and are not translated.
  if (untranslated && flow.reply.destination == flow.original.source &&
      is_current(PlacesOf(flow.original.source))) {
    return true;
  }
  const auto places = PlacesOf(flow.original.destination);
  for (Place* place : places) {
    if (!IsEndpoint(flow, place->destination.is_range(), place->port->now.endpoints)) continue;
    place->kept = true;
    return false;
  }
  return !places.empty() && (translated || (untranslated && is_current(places)));
}

}  // namespace svcmap::proxy
