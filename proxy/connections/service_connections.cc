#include "proxy/connections/service_connections.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kServicesAtOnce = 1024;

// As an element of `service-connections` has it.
std::string KeyOf(const ServiceConnections& at) {
  const nft::FieldBytes key = ServiceIpKey(at.address, at.protocol, at.reached_at);
  return {key.bytes().begin(), key.bytes().end()};
}

void AddDestinations(const std::string& service, const ServiceRows& rows,
                     std::vector<ServiceConnections>& to) {
  for (const PortRows& port : rows.ports) {
    for (const ReachedAt& at : port.addresses) {
      to.push_back({.service = service,
                    .protocol = port.protocol,
                    .port = port.port,
                    .address = at.address,
                    .reached_at = at.port});
    }
  }
}

// False if the loop has stopped.
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

const std::vector<ServiceConnections>& ConnectionReader::Read(Loop& loop) {
  const Clock::time_point began = Clock::now();
  if (began < next_) return connections_;
  std::vector<ServiceConnections> connections;
  if (!ReadDestinations(loop, connections)) return connections_;

  PacketCounts counts[2];
  absl::Status problem;
  for (const Family family : kFamilies) {
    absl::StatusOr<PacketCounts> read = options_.read(family);
    problem.Update(read.status());
    if (read.ok()) counts[Index(family)] = *std::move(read);
    // The kernel forgets who had no connection for a day, and a dump may miss an element.
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
  connections_ = std::move(connections);
  if (!std::exchange(failing_, !problem.ok()) && failing_) options_.on_problem(problem);

  const Clock::time_point now = Clock::now();
  next_ = now + std::max<Clock::duration>(options_.lifetime, options_.rest * (now - began));
  return connections_;
}

}  // namespace svcmap::proxy
