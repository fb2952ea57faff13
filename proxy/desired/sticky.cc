#include "proxy/desired/sticky.h"

#include <algorithm>

namespace svcmap::proxy {
namespace {

bool ByAddress(const Affinity::Endpoint& a, const Affinity::Endpoint& b) {
  return a.address < b.address;
}

std::string PortKey(Family family, const std::string& comment) {
  return std::to_string(Index(family)) + comment;
}

// Parses an address followed by a port. Endpoints of port ranges have no port.
std::optional<EndpointAddress> ParseEndpoint(Family family, std::span<const uint8_t> data) {
  const size_t size = family == Family::kIpv4 ? 4 : 16;
  const bool has_port = data.size() >= size + 2;
  if (!has_port && data.size() != size) return std::nullopt;
  return EndpointAddress{
      *IpAddress::FromBytes(data.first(size)),
      has_port ? static_cast<uint16_t>(nft::ReadBigEndian(data.subspan(size, 2))) : uint16_t{0}};
}

}  // namespace

void NumberEndpoints(const std::vector<EndpointAddress>& wanted, Affinity& affinity) {
  std::vector<Affinity::Endpoint> before = std::move(affinity.endpoints);
  affinity.endpoints.clear();
  std::vector<bool> used(kMaxStickyEndpoint + 1);
  for (const EndpointAddress& address : wanted) {
    Affinity::Endpoint endpoint{address, 0};
    const auto held = std::lower_bound(before.begin(), before.end(), endpoint, ByAddress);
    if (held != before.end() && held->address == address) {
      endpoint.number = held->number;
      used[endpoint.number] = true;
    }
    affinity.endpoints.push_back(endpoint);
  }
  for (Affinity::Endpoint& endpoint : affinity.endpoints) {
    if (endpoint.number != 0) continue;
    do {
      ++affinity.last_number;
    } while (affinity.last_number == 0 || used[affinity.last_number]);
    used[affinity.last_number] = true;
    endpoint.number = affinity.last_number;
  }
}

void CountTimers(const ServiceRows& service, int change, TimerUses& uses) {
  for (const PortRows& port : service.ports) {
    if (port.affinity) uses[port.affinity->timer] += change;
  }
}

uint8_t AffinityTimers::For(uint32_t seconds, const TimerUses& uses_of_others) {
  const auto found = std::find(seconds_.begin(), seconds_.end(), seconds);
  if (found != seconds_.end()) return Take(found - seconds_.begin());
  if (seconds_.size() < kMaxTimers) {
    seconds_.push_back(seconds);
    return Take(seconds_.size() - 1);
  }
  for (size_t number = 1; number < kMaxTimers; ++number) {
    if (uses_of_others[number] != 0 || promised_[number]) continue;
    seconds_[number] = seconds;
    return Take(number);
  }
  const auto better = [seconds](uint32_t a, uint32_t b) {
    if ((a > seconds) != (b > seconds)) return a > seconds;
    return a > seconds ? a < b : a > b;
  };
  return Take(std::min_element(seconds_.begin(), seconds_.end(), better) - seconds_.begin());
}

uint8_t AffinityTimers::Take(size_t number) {
  promised_[number] = true;
  return static_cast<uint8_t>(number);
}

void AffinityTimers::Commit() {
  committed_ = seconds_;
  promised_ = {};
}

void AffinityTimers::Rollback() { Restore(committed_); }

void AffinityTimers::Restore(std::vector<uint32_t> committed) {
  seconds_ = committed;
  committed_ = std::move(committed);
  promised_ = {};
}

void AffinityMemory::Remember(Family family, const std::vector<nft::Element>& elements,
                              Numbers& numbers) {
  for (const nft::Element& element : elements) {
    const std::optional<EndpointAddress> endpoint = ParseEndpoint(family, element.data);
    if (element.key.size() != 4 || !endpoint) continue;
    const uint32_t choice = nft::ReadBigEndian(element.key);
    const uint32_t port_number = choice >> 16;
    const auto [port, added] = ports_.try_emplace(PortKey(family, element.comment));
    Affinity& affinity = port->second;
    if (added) {
      if (!numbers.Of(NumberPool::kStickyPorts, family).Reserve(port_number)) {
        ports_.erase(port);
        continue;
      }
      affinity.port_number = port_number;
    }
    if (affinity.port_number != port_number) continue;
    const auto number = static_cast<uint16_t>(choice);
    affinity.endpoints.push_back({*endpoint, number});
    affinity.last_number = std::max(affinity.last_number, number);
  }
  for (auto& [key, affinity] : ports_) {
    // `affinity-endpoints` and `affinity-local-endpoints` may disagree after a change by another
    // process. Keeps only one number per endpoint and only one endpoint per number.
    std::vector<Affinity::Endpoint>& endpoints = affinity.endpoints;
    std::stable_sort(endpoints.begin(), endpoints.end(),
                     [](const auto& a, const auto& b) { return a.number < b.number; });
    endpoints.erase(std::unique(endpoints.begin(), endpoints.end(),
                                [](const auto& a, const auto& b) { return a.number == b.number; }),
                    endpoints.end());
    std::stable_sort(endpoints.begin(), endpoints.end(), ByAddress);
    endpoints.erase(
        std::unique(endpoints.begin(), endpoints.end(),
                    [](const auto& a, const auto& b) { return a.address == b.address; }),
        endpoints.end());
  }
}

bool AffinityMemory::Take(Family family, const std::string& comment, Numbers& numbers,
                          Affinity& affinity) {
  const auto found = ports_.find(PortKey(family, comment));
  if (found == ports_.end() ||
      !numbers.Of(NumberPool::kStickyPorts, family).Take(found->second.port_number)) {
    return false;
  }
  affinity = found->second;
  return true;
}

void AffinityMemory::Forget(Numbers& numbers) {
  ports_.clear();
  for (const Family family : kFamilies) {
    numbers.Of(NumberPool::kStickyPorts, family).ReleaseReserved();
  }
}

}  // namespace svcmap::proxy
