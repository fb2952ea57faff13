#include "proxy/connections/service_connections.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kServicesAtOnce = 1024;

// Returns the element's key in the set `service-connections` or `range-connections`.
std::string KeyOf(const ServiceConnections& at) {
  const nft::FieldBytes key = at.reached_at != 0
                                  ? ServiceIpKey(at.address, at.protocol, at.reached_at)
                                  : AddressAndProtocolKey(at.address, at.protocol);
  return {key.bytes().begin(), key.bytes().end()};
}

void AddDestinations(const std::string& service, const ServiceRows& rows,
                     std::vector<ServiceConnections>& to) {
  // All ranges of an address and protocol share a counter, because they belong to one Service.
  absl::flat_hash_set<std::pair<IpAddress, Protocol>> with_ranges;
  for (const PortRows& port : rows.ports) {
    for (const ReachedAt& at : port.addresses) {
      const bool range = port.is_range();
      if (range && !with_ranges.emplace(at.address, port.protocol).second) continue;
      to.push_back({.service = service,
                    .protocol = port.protocol,
                    .port = range ? uint16_t{0} : port.port,
                    .address = at.address,
                    .reached_at = range ? uint16_t{0} : at.port});
    }
  }
}

// Appends the destinations of all programmed Services to `to`. Returns false if the reconcile loop
// has stopped.
bool ReadDestinations(Loop& loop, std::vector<ServiceConnections>& to) {
  std::string last;
  for (bool more = true; more;) {
    const bool asked = loop.Call([&](Reconciler& reconciler) {
      const Applied::Services& services = reconciler.applied().services();
      auto service = services.upper_bound(last);
      for (size_t i = 0; i < kServicesAtOnce && service != services.end(); ++i, ++service) {
        AddDestinations(service->first, service->second, to);
        last = service->first;
      }
      more = service != services.end();
    });
    if (!asked) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const std::vector<ServiceConnections>> ConnectionReader::Read() {
  TakeResult(std::chrono::milliseconds(0));
  if (!reading_.valid() && Clock::now() >= last_.next) {
    try {
      reading_ = std::async(std::launch::async, &ConnectionReader::Load, this);
    } catch (const std::system_error&) {  // The node or the cgroup has no thread left.
    }
  }
  TakeResult(options_.patience);
  return last_.connections;
}

void ConnectionReader::TakeResult(std::chrono::milliseconds patience) {
  if (!reading_.valid()) return;
  if (reading_.wait_for(patience) == std::future_status::ready) last_ = reading_.get();
}

ConnectionReader::Result ConnectionReader::Load() {
  const Clock::time_point began = Clock::now();
  std::vector<ServiceConnections> connections;
  if (!ReadDestinations(loop_, connections)) return last_;

  PacketCounts counts[2];
  absl::Status problem;
  for (const Family family : kFamilies) {
    absl::StatusOr<PacketCounts> read = options_.read(family);
    problem.Update(read.status());
    if (read.ok()) counts[Index(family)] = *std::move(read);
    // Keeps old counts, because the kernel removes elements after a day without a connection, and
    // because a dump may miss an element.
    for (auto& [key, count] : seen_[Index(family)]) counts[Index(family)].try_emplace(key, count);
    seen_[Index(family)].clear();
  }
  for (ServiceConnections& at : connections) {
    const size_t family = Index(at.address.family());
    const auto found = counts[family].find(KeyOf(at));
    if (found == counts[family].end()) continue;
    at.connections = found->second;
    seen_[family].insert(*found);
  }
  if (!std::exchange(failing_, !problem.ok()) && failing_) options_.on_problem(problem);

  const Clock::time_point now = Clock::now();
  return {std::make_shared<const std::vector<ServiceConnections>>(std::move(connections)),
          now + std::max<Clock::duration>(options_.lifetime, options_.rest * (now - began))};
}

}  // namespace svcmap::proxy
