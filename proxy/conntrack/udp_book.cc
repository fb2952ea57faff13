#include "proxy/conntrack/udp_book.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace svcmap::proxy {
namespace {

using Ends = std::vector<FlowDestination>;

auto OrderOf(const UdpPort& port) { return std::tie(port.family, port.name); }

template <typename Ports>
void SortPorts(Ports& ports) {
  std::sort(ports.begin(), ports.end(),
            [](const auto& a, const auto& b) { return OrderOf(a.now) < OrderOf(b.now); });
}

// Returns the port with the family and name of `wanted`, or null. `ports` is sorted.
template <typename Ports>
auto* FindPort(Ports& ports, const UdpPort& wanted) {
  const auto found = std::lower_bound(
      ports.begin(), ports.end(), wanted,
      [](const auto& port, const UdpPort& key) { return OrderOf(port.now) < OrderOf(key); });
  return found == ports.end() || OrderOf(found->now) != OrderOf(wanted) ? nullptr : &*found;
}

Ends Union(const Ends& a, const Ends& b) {
  Ends all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

bool Includes(const std::vector<EndpointAddress>& all, const std::vector<EndpointAddress>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

}  // namespace

void UdpBook::Update(const std::string& key, UdpPorts ports) {
  const auto known = services_.find(key);
  const std::shared_ptr<const Service> before = known == services_.end() ? nullptr : known->second;
  Service after;
  absl::flat_hash_set<FlowDestination> current;
  for (UdpPort& port : ports) {
    current.insert(port.destinations.begin(), port.destinations.end());
    after.push_back({std::move(port), {}});
  }
  SortPorts(after);
  if (before) {
    Service removed;
    for (const Port& old : *before) {
      Port* port = FindPort(after, old.now);
      if (port == nullptr) {
        removed.push_back({{.family = old.now.family, .name = old.now.name}, {}});
        port = &removed.back();
      }
      port->former = Union(old.now.destinations, old.former);
      std::erase_if(port->former,
                    [&](const FlowDestination& end) { return current.contains(end); });
    }
    after.insert(after.end(), std::make_move_iterator(removed.begin()),
                 std::make_move_iterator(removed.end()));
    SortPorts(after);
  }
  std::erase_if(
      after, [](const Port& port) { return port.now.destinations.empty() && port.former.empty(); });

  bool changed = before && before->size() != after.size();
  bool due = changed;
  for (const Port& port : after) {
    const Port* old = before ? FindPort(*before, port.now) : nullptr;
    const bool moved = old == nullptr || old->now.destinations != port.now.destinations ||
                       old->former != port.former;
    changed |= moved || old->now.endpoints != port.now.endpoints;
    due |= moved || !Includes(port.now.endpoints, old->now.endpoints) ||
           (old->now.endpoints.empty() && !port.now.endpoints.empty());
  }
  if (!changed) return;
  if (due) due_.insert(key);
  Replace(key, std::move(after));
}

void UdpBook::Replace(const std::string& key, Service service) {
  ++changes_;
  auto& held = services_[key];
  for (const Port& port : held ? *held : Service()) {
    for (const FlowDestination& destination : port.now.destinations) {
      const auto count = destinations_.find(destination);
      if (--count->second == 0) destinations_.erase(count);
    }
  }
  for (const Port& port : service) {
    for (const FlowDestination& destination : port.now.destinations) ++destinations_[destination];
  }
  if (service.empty()) {
    services_.erase(key);
    due_.erase(key);
  } else {
    held = std::make_shared<const Service>(std::move(service));
  }
}

UdpBook::Round UdpBook::Take() {
  if (std::exchange(all_due_, false)) {
    for (const auto& [key, service] : services_) due_.insert(key);
  }
  return MakeRound(std::exchange(due_, {}));
}

UdpBook::Round UdpBook::Again(const Round& round) const {
  std::vector<std::string> keys;
  for (const Round::Entry& taken : round.services_) {
    if (services_.contains(taken.key)) keys.push_back(taken.key);
  }
  return MakeRound(keys);
}

template <typename Keys>
UdpBook::Round UdpBook::MakeRound(const Keys& keys) const {
  Round round;
  round.changes_ = changes_;
  absl::flat_hash_set<IpAddress> with_ranges;
  for (const std::string& key : keys) {
    Round::Entry taken{key, services_.at(key), {}};
    for (const Port& port : *taken.service) {
      for (const FlowDestination& destination : port.former) {
        if (!destinations_.contains(destination)) taken.former.push_back({&port.now, destination});
      }
      for (const Ends* ends : {&port.now.destinations, &port.former}) {
        for (const FlowDestination& end : *ends) {
          if (end.is_range()) with_ranges.insert(end.first.address);
        }
      }
    }
    round.services_.push_back(std::move(taken));
  }
  if (!with_ranges.empty()) round.single_ports_ = SinglePortsAt(with_ranges);
  return round;
}

// Visits the destinations of all Services. Services with port ranges are rare.
std::vector<nft::FlowEnd> UdpBook::SinglePortsAt(
    const absl::flat_hash_set<IpAddress>& addresses) const {
  std::vector<nft::FlowEnd> ports;
  for (const auto& [destination, count] : destinations_) {
    if (!destination.is_range() && addresses.contains(destination.first.address)) {
      ports.push_back(destination.first);
    }
  }
  return ports;
}

StaleFlows UdpBook::Round::MakeStaleFlows() {
  StaleFlows flows;
  for (const nft::FlowEnd& end : single_ports_) flows.Exclude(end);
  for (Entry& taken : services_) {
    for (const Port& port : *taken.service) {
      for (const FlowDestination& destination : port.now.destinations) {
        flows.Add(destination, StaleFlows::Place::kCurrent, port.now.endpoints);
      }
    }
    for (FormerDestination& former : taken.former) {
      former.number =
          flows.Add(former.destination, StaleFlows::Place::kFormer, former.port->endpoints);
    }
  }
  return flows;
}

// Skips Services that changed during the round. Services that changed are due again and keep their
// former addresses.
void UdpBook::Finish(const Round& round, const StaleFlows& flows) {
  for (const Round::Entry& taken : round.services_) {
    const auto held = services_.find(taken.key);
    if (held == services_.end() || held->second != taken.service) continue;
    Service left = *taken.service;
    bool changed = false;
    for (Port& port : left) {
      changed |= !port.former.empty();
      port.former.clear();
    }
    if (!changed) continue;
    for (const Round::FormerDestination& former : taken.former) {
      if (!flows.Kept(former.number)) continue;
      FindPort(left, *former.port)->former.push_back(former.destination);
    }
    std::erase_if(left, [](const Port& port) {
      return port.now.destinations.empty() && port.former.empty();
    });
    Replace(taken.key, std::move(left));
  }
}

void UdpBook::Return(const Round& round) {
  for (const Round::Entry& taken : round.services_) {
    if (services_.contains(taken.key)) due_.insert(taken.key);
  }
}

}  // namespace svcmap::proxy
