#include "api/cli/endpoint_rates.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"

namespace svcmap::api {

EndpointRates::EndpointRates(const std::vector<CheckTarget>& addresses) {
  for (const CheckTarget& target : addresses) {
    addresses_.insert({target.address, target.port, target.protocol});
  }
}

void EndpointRates::AddEndpoints(const v1::EndpointSlice& slice) {
  for (const v1::Endpoint& endpoint : slice.endpoints()) {
    if (endpoint.conditions().has_ready() && !endpoint.conditions().ready()) continue;
    if (endpoint.addresses().empty()) continue;
    const std::optional<IpAddress> address = IpAddress::Parse(endpoint.addresses(0));
    if (!address) continue;
    for (const v1::EndpointPort& port : slice.ports()) {
      const std::optional<proxy::Protocol> protocol = ParseProtocol(port.protocol());
      if (protocol && port.port() > 0 && port.port() <= 65535) {
        endpoints_[{*address, static_cast<uint16_t>(port.port()), *protocol}];
      }
    }
  }
}

void EndpointRates::StartReading() {
  for (auto& [address, connections] : endpoints_) {
    connections.before = std::exchange(connections.now, {});
  }
}

void EndpointRates::Add(const TrackedEntry& entry) {
  const nft::FlowEnd& to = entry.destination;
  if (entry.answers == to) return;
  if (!addresses_.contains({to.address, to.port, entry.protocol})) return;
  // The kernel can use an id again after the entry has been deleted.
  const uint64_t key = uint64_t{entry.id} << 16 | entry.client.port;
  endpoints_[{entry.answers.address, entry.answers.port, entry.protocol}].now.insert(key);
}

std::vector<ServiceRate> EndpointRates::Rates(double seconds, RateOrder order) const {
  std::vector<ServiceRate> rates;
  for (const auto& [address, connections] : endpoints_) {
    const auto& [ip, port, protocol] = address;
    const auto added = std::count_if(
        connections.now.begin(), connections.now.end(),
        [&before = connections.before](uint64_t key) { return !before.contains(key); });
    rates.push_back({absl::StrCat(ip.WithPort(port), "/", std::string(ProtocolName(protocol))),
                     static_cast<double>(added) / seconds, connections.now.size()});
  }
  SortRates(order, rates);
  return rates;
}

}  // namespace svcmap::api
