#include "proxy/desired/sticky.h"

#include <algorithm>

namespace svcmap::proxy {
void NumberEndpoints(const std::vector<EndpointAddress>& wanted, Affinity& affinity) {
  std::vector<Affinity::Endpoint> before = std::move(affinity.endpoints);
  affinity.endpoints.clear();
  std::vector<bool> used(kMaxStickyEndpoint + 1);
  for (const EndpointAddress& address : wanted) {
    Affinity::Endpoint endpoint{address, 0};
    const auto held = std::ranges::lower_bound(before, address, {}, &Affinity::Endpoint::address);
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

}  // namespace svcmap::proxy
