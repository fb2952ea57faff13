#include "proxy/connections/service_connections.h"

#include <algorithm>
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
      if (port.is_range()) {
        if (!with_ranges.emplace(at.address, port.protocol).second) continue;
        to.push_back({.service = service, .protocol = port.protocol, .address = at.address});
        continue;
      }
      to.push_back({.service = service,
                    .protocol = port.protocol,
                    .port = port.port,
                    .address = at.address,
                    .reached_at = at.port});
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

ConnectionReader::ConnectionReader(Loop& loop, ConnectionReaderOptions options)
    : loop_(loop),
      options_(std::move(options)),
      connections_(std::make_shared<const std::vector<ServiceConnections>>()),
      thread_([this] { Run(); }) {}

ConnectionReader::~ConnectionReader() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const std::vector<ServiceConnections>> ConnectionReader::Read() {
  std::unique_lock lock(mutex_);
  if (Clock::now() >= next_ && !std::exchange(wanted_, true)) changed_.notify_all();
  changed_.wait_for(lock, options_.patience, [this] { return !wanted_; });
  return connections_;
}

void ConnectionReader::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ || ending_; });
    if (ending_) return;
    lock.unlock();
    Reload();
    lock.lock();
    wanted_ = false;
    changed_.notify_all();
  }
}

void ConnectionReader::Reload() {
  const Clock::time_point began = Clock::now();
  std::vector<ServiceConnections> connections;
  if (!ReadDestinations(loop_, connections)) return;

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
  const std::lock_guard lock(mutex_);
  connections_ = std::make_shared<const std::vector<ServiceConnections>>(std::move(connections));
  next_ = now + std::max<Clock::duration>(options_.lifetime, options_.rest * (now - began));
}

}  // namespace svcmap::proxy
