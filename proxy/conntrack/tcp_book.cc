#include "proxy/conntrack/tcp_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace svcmap::proxy {
namespace {

EndpointAddress EndpointOf(const nft::Flow& flow) {
  return {flow.reply.source.address, flow.reply.source.port};
}

}  // namespace

void TcpBook::Update(const std::string& key, TcpEndpoints tcp, Time now) {
  if (tcp.destinations.empty()) {
    services_.erase(key);
    return;
  }
  Service& service = services_[key];
  std::vector<EndpointAddress> returned, left;
  std::set_difference(tcp.endpoints.begin(), tcp.endpoints.end(), service.now.endpoints.begin(),
                      service.now.endpoints.end(), std::back_inserter(returned));
  for (const EndpointAddress& endpoint : returned) service.gone.erase(endpoint);
  std::set_difference(service.now.endpoints.begin(), service.now.endpoints.end(),
                      tcp.endpoints.begin(), tcp.endpoints.end(), std::back_inserter(left));
  for (const EndpointAddress& endpoint : left) {
    service.gone[endpoint] = now;
    departures_.push_back({now, key, endpoint});
  }
  service.now = std::move(tcp);
  ForgetOldest();
}

void TcpBook::Forget(const Departure& departure) {
  if (!IsGone(departure.service, departure.endpoint, departure.left)) return;
  auto& gone = services_.at(departure.service).gone;
  gone.erase(departure.endpoint);
  if (gone.empty()) gone = {};  // Frees the memory of the table.
}

void TcpBook::ForgetOldest() {
  for (; departures_.size() > kMaxDepartures; departures_.pop_front()) {
    const Departure& oldest = departures_.front();
    forgotten_ += IsGone(oldest.service, oldest.endpoint, oldest.left) ? 1 : 0;
    Forget(oldest);
  }
}

std::optional<TcpBook::Time> TcpBook::due_at() const {
  if (departures_.empty()) return std::nullopt;
  return departures_.front().left + gone_after_;
}

bool TcpBook::IsGone(const std::string& key, const EndpointAddress& endpoint, Time left) const {
  const auto service = services_.find(key);
  if (service == services_.end()) return false;
  const auto gone = service->second.gone.find(endpoint);
  return gone != service->second.gone.end() && gone->second == left;
}

TcpBook::Round TcpBook::Take(Time now) {
  Round round;
  absl::flat_hash_map<std::string, uint32_t> indexes;
  while (due_at() && *due_at() <= now) {
    Departure departure = std::move(departures_.front());
    departures_.pop_front();
    if (!IsGone(departure.service, departure.endpoint, departure.left)) continue;
    const auto index = static_cast<uint32_t>(round.services_.size());
    const auto [found, added] = indexes.try_emplace(departure.service, index);
    if (added) {
      round.services_.push_back({departure.service, {}});
      for (const nft::FlowEnd& destination : services_.at(departure.service).now.destinations) {
        round.at_.emplace(destination, index);
      }
    }
    round.services_[found->second].gone[departure.endpoint] = departure.left;
    round.families_[Index(departure.endpoint.ip.family())] = true;
    round.departures_.push_back(std::move(departure));
  }
  return round;
}

const TcpBook::Round::Service* TcpBook::Round::Find(const nft::Flow& flow) const {
  const auto found = at_.find(flow.original.destination);
  return found == at_.end() ? nullptr : &services_[found->second];
}

bool TcpBook::Round::IsStale(const nft::Flow& flow) const {
  // A connection without translation does not use the Service.
  if (flow.original.destination == flow.reply.source) return false;
  const Service* service = Find(flow);
  return service != nullptr && service->gone.contains(EndpointOf(flow));
}

bool TcpBook::IsStillStale(const Round& round, const nft::Flow& flow) const {
  const Round::Service* service = round.Find(flow);
  if (service == nullptr) return false;
  const auto gone = service->gone.find(EndpointOf(flow));
  return gone != service->gone.end() && IsGone(service->key, gone->first, gone->second);
}

void TcpBook::Finish(const Round& round) {
  for (const Departure& departure : round.departures_) Forget(departure);
}

void TcpBook::Return(const Round& round) {
  departures_.insert(departures_.begin(), round.departures_.begin(), round.departures_.end());
  ForgetOldest();
}

}  // namespace svcmap::proxy
