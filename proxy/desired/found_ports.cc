#include "proxy/desired/found_ports.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {
namespace {

std::string PortKey(Family family, Protocol protocol, bool is_range, std::string_view comment) {
  return std::string{static_cast<char>(Index(family)), static_cast<char>(protocol),
                     is_range ? 'r' : 'p'}
      .append(comment);
}

uint32_t ReadHost32(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// Parses an address followed by a port. Endpoints of port ranges have no port.
std::optional<EndpointAddress> ParseEndpoint(const nft::ElementView& element) {
  const size_t size = element.set.family == Family::kIpv4 ? 4 : 16;
  const bool has_port = element.data.size() >= size + 2;
  if (!has_port && element.data.size() != size) return std::nullopt;
  return EndpointAddress{
      *IpAddress::FromBytes(element.data.first(size)),
      has_port ? static_cast<uint16_t>(nft::ReadBigEndian(element.data.subspan(size, 2)))
               : uint16_t{0}};
}

// Keeps one number per endpoint and one endpoint per number, also in damaged tables.
void KeepUnique(Affinity& affinity) {
  std::vector<Affinity::Endpoint>& endpoints = affinity.endpoints;
  const auto keep = [&](auto field) {
    std::ranges::stable_sort(endpoints, {}, field);
    endpoints.erase(
        std::unique(endpoints.begin(), endpoints.end(),
                    [field](const auto& a, const auto& b) { return a.*field == b.*field; }),
        endpoints.end());
  };
  keep(&Affinity::Endpoint::number);
  if (!endpoints.empty()) affinity.last_number = endpoints.back().number;
  keep(&Affinity::Endpoint::address);
}

// Adds the number to the list. Returns false if it is out of range, as in damaged tables.
bool Note(const Number& number, std::vector<Number>& numbers) {
  if (number.value == 0 || number.value > kLastNumbers[Index(number.pool)]) return false;
  numbers.push_back(number);
  return true;
}

}  // namespace

void FoundPorts::Add(const nft::ElementView& element) {
  const Family family = element.set.family;
  const size_t size = family == Family::kIpv4 ? 4 : 16;
  const std::span<const uint8_t> key = element.key;
  switch (element.set.set) {
    case kServiceIps:
    case kRangePorts:
    case kRangeBlocks:
    case kLocalSets: {
      const std::optional<IpAddress> descriptor = IpAddress::FromBytes(element.data);
      if (!descriptor || descriptor->family() != family || key.size() < size) return;
      const DescriptorParts parts = ParseDescriptor(*descriptor);
      const NumberPool pool = parts.sticky ? NumberPool::kStickyGroups : NumberPool::kGroups;
      Note({pool, family, parts.group}, numbers_);
      if (element.set.set == kLocalSets) {
        local_sets_.emplace(*IpAddress::FromBytes(key.first(size)), *descriptor);
      } else if (key.size() > size) {
        destinations_.emplace_back(PortKey(family, static_cast<Protocol>(key[size]),
                                           element.set.set != kServiceIps, element.comment),
                                   *descriptor);
      }
      return;
    }
    case kEndpoints:
    case kRangeEndpoints: {
      const std::optional<EndpointAddress> endpoint = ParseEndpoint(element);
      if (key.size() != 8) return;
      const uint32_t group = nft::ReadBigEndian(key.first(family == Family::kIpv4 ? 3 : 4));
      if (!Note({NumberPool::kGroups, family, group}, numbers_) || !endpoint) return;
      slots_[Index(family)][element.set.set == kRangeEndpoints][group].emplace_back(
          ReadHost32(key.subspan(4)), *endpoint);
      return;
    }
    case kAffinitySlots: {
      if (key.size() != 8 || element.data.size() < 4) return;
      const uint32_t group = nft::ReadBigEndian(key.first(2));
      if (!Note({NumberPool::kStickyGroups, family, group}, numbers_)) return;
      const uint32_t choice = nft::ReadBigEndian(element.data.first(4));
      if (!Note({NumberPool::kStickyPorts, family, choice >> 16}, numbers_)) return;
      sticky_slots_[Index(family)][group].emplace_back(ReadHost32(key.subspan(4)), choice);
      return;
    }
    case kAffinityEndpoints:
    case kAffinityLocalEndpoints:
    case kRangeAffinityEndpoints:
    case kRangeAffinityLocalEndpoints: {
      const std::optional<EndpointAddress> endpoint = ParseEndpoint(element);
      if (key.size() != 4 || !endpoint) return;
      const uint32_t choice = nft::ReadBigEndian(key);
      if (!Note({NumberPool::kStickyPorts, family, choice >> 16}, numbers_)) return;
      const bool is_range = element.set.set >= kRangeAffinityEndpoints;
      choices_[Index(family)][is_range].emplace(choice, *endpoint);
      return;
    }
    default:
      return;
  }
}

void FoundPorts::Finish() {
  std::sort(numbers_.begin(), numbers_.end());
  numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
  const auto sort = [](auto& slots) {
    for (auto& [group, list] : slots) std::sort(list.begin(), list.end());
  };
  for (auto& by_kind : slots_) std::ranges::for_each(by_kind, sort);
  std::ranges::for_each(sticky_slots_, sort);
  for (const auto& [port, descriptor] : destinations_) TakeGroups(port, descriptor);
  destinations_.clear();
  // In damaged tables, several ports may have the same number. Only one of them keeps it.
  absl::flat_hash_set<Number> taken;
  const auto keep_unique = [&](NumberPool pool, Family family, uint32_t& number) {
    if (number != 0 && !taken.insert({pool, family, number}).second) number = 0;
  };
  for (auto& [key, groups] : ports_) {
    const Family family = kFamilies[static_cast<size_t>(key[0])];
    const NumberPool pool = groups.timer ? NumberPool::kStickyGroups : NumberPool::kGroups;
    if (groups.internal == groups.cluster) groups.internal = 0;
    keep_unique(pool, family, groups.cluster);
    keep_unique(pool, family, groups.internal);
    keep_unique(pool, family, groups.local);
    for (const uint32_t group : {groups.cluster, groups.local}) {
      const auto slots = sticky_slots_[Index(family)].find(group);
      if (!groups.timer || groups.port_number != 0 || slots == sticky_slots_[Index(family)].end()) {
        continue;
      }
      groups.port_number = slots->second.front().second >> 16;
    }
    keep_unique(NumberPool::kStickyPorts, family, groups.port_number);
  }
}

void FoundPorts::TakeGroups(const std::string& port, const IpAddress& descriptor) {
  const DescriptorParts parts = ParseDescriptor(descriptor);
  Groups& groups = ports_[port];
  if (parts.sticky) groups.timer = parts.sticky->timer;
  const bool local = parts.sticky && parts.sticky->local;
  const bool internal = parts.kind == DispatchKind::kInternal && !parts.sticky;
  (local ? groups.local : internal ? groups.internal : groups.cluster) = parts.group;
  const auto local_set = local_sets_.find(descriptor);
  if (local_set != local_sets_.end()) groups.local = ParseDescriptor(local_set->second).group;
}

EndpointSet FoundPorts::SetOf(const PortRows& port, uint32_t group, Affinity* affinity) const {
  EndpointSet set;
  if (affinity == nullptr) {
    const Slots& slots = slots_[Index(port.family)][port.is_range()];
    const auto found = slots.find(group);
    if (found == slots.end()) return set;
    for (const auto& [slot, endpoint] : found->second) {
      if (slot == set.slots.size()) set.slots.push_back(endpoint);
    }
  } else {
    const StickySlots& slots = sticky_slots_[Index(port.family)];
    const auto found = slots.find(group);
    if (found == slots.end()) return set;
    for (const auto& [slot, choice] : found->second) {
      const auto& choices = choices_[Index(port.family)][port.is_range()];
      const auto endpoint = choices.find(choice);
      if (slot != set.slots.size() || endpoint == choices.end()) continue;
      if (affinity->port_number != choice >> 16) continue;
      set.slots.push_back(endpoint->second);
      affinity->endpoints.push_back({endpoint->second, static_cast<uint16_t>(choice)});
    }
  }
  if (!set.slots.empty()) set.group = group;
  return set;
}

ServiceRows FoundPorts::Find(const Service& service) const {
  ServiceRows rows;
  for (const Family family : kFamilies) {
    if (!service.cluster_ip[Index(family)]) continue;
    for (const ServicePort& port : service.ports) {
      const auto found = ports_.find(
          PortKey(family, port.protocol, port.is_range(), ServiceComment(service.key, port.name)));
      if (found == ports_.end()) continue;
      Groups groups = found->second;
      const bool internal_local = service.internal_policy == TrafficPolicy::kLocal;
      uint32_t& set_of_cluster_ip = internal_local ? groups.local : groups.cluster;
      if (set_of_cluster_ip == 0) set_of_cluster_ip = groups.internal;
      if (groups.timer && groups.port_number == 0) continue;
      PortRows& port_rows = rows.ports.emplace_back(PortRows{.family = family,
                                                             .name = port.name,
                                                             .protocol = port.protocol,
                                                             .port = port.port,
                                                             .end_port = port.end_port});
      if (groups.timer) {
        port_rows.affinity = {.timer = *groups.timer, .port_number = groups.port_number};
      }
      Affinity* const affinity = port_rows.affinity ? &*port_rows.affinity : nullptr;
      port_rows.cluster = SetOf(port_rows, groups.cluster, affinity);
      port_rows.local = SetOf(port_rows, groups.local, affinity);
      if (affinity != nullptr) KeepUnique(*affinity);
    }
  }
  return rows;
}

}  // namespace svcmap::proxy
