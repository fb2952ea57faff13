#include "api/cli/rates.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/cli/text.h"
#include "api/convert/fields.h"

namespace svcmap::api {
namespace {

constexpr std::string_view kMetric = "svcmap_service_connections_total{";

std::string LabelOf(std::string_view line, const char* name) {
  const std::string start = absl::StrCat(name, "=\"");
  const size_t begin = line.find(start);
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = line.substr(begin + start.size());
  return std::string(rest.substr(0, rest.find('"')));
}

std::string NameOf(std::string_view line, RateGroup group) {
  std::string name = absl::StrCat(LabelOf(line, "{namespace"), "/", LabelOf(line, ",name"));
  if (group == RateGroup::kService) return name;
  absl::StrAppend(&name, " ", LabelOf(line, "port"), "/", LabelOf(line, "protocol"));
  if (group == RateGroup::kPort) return name;
  return absl::StrCat(name, " ", LabelOf(line, "destination"));
}

// Removes the end of a line that does not fit.
std::string Fit(const std::string& line, size_t columns) {
  return (columns == 0 ? line : Shorten(line, columns)) + "\n";
}

// Shortens the first word of `name`, because the port and address of the Service follow.
std::string FitName(const std::string& name, size_t columns) {
  constexpr size_t kFirstColumns = 25;
  constexpr size_t kShortest = 8;
  const size_t end = std::min(name.find(' '), name.size());
  const size_t used = kFirstColumns + Width(name.substr(end));
  if (columns == 0 || used + end <= columns) return name;
  return Shorten(name.substr(0, end), columns > used + kShortest ? columns - used : kShortest) +
         name.substr(end);
}

}  // namespace

ConnectionCounts ReadConnectionCounts(std::string_view page, RateGroup group) {
  ConnectionCounts counts;
  while (!page.empty()) {
    const size_t length = std::min(page.find('\n'), page.size());
    const std::string line(page.substr(0, length));
    page.remove_prefix(std::min(length + 1, page.size()));
    if (!line.starts_with(kMetric)) continue;
    const double value = std::strtod(line.c_str() + line.rfind(' ') + 1, nullptr);
    counts[NameOf(line, group)] += static_cast<uint64_t>(value);
  }
  return counts;
}

std::vector<ServiceRate> RatesBetween(const ConnectionCounts& before, const ConnectionCounts& after,
                                      double seconds, RateOrder order) {
  std::vector<ServiceRate> rates;
  for (const auto& [name, total] : after) {
    const auto old = before.find(name);
    // A counter without an earlier value is new, because the agent exports counters with value 0.
    const uint64_t start = old == before.end() || old->second > total ? 0 : old->second;
    rates.push_back({name, static_cast<double>(total - start) / seconds, total});
  }
  SortRates(order, rates);
  return rates;
}

void SortRates(RateOrder order, std::vector<ServiceRate>& rates) {
  std::stable_sort(rates.begin(), rates.end(), [order](const auto& a, const auto& b) {
    return order == RateOrder::kRate    ? a.per_second > b.per_second
           : order == RateOrder::kTotal ? a.total > b.total
                                        : false;
  });
}

std::string RatesText(const std::vector<ServiceRate>& rates, size_t max_rows, size_t columns,
                      const RateHeading& heading) {
  std::string text =
      Fit(absl::StrFormat("%10s %12s  %s", "CONN/S", heading.total, heading.name), columns);
  const size_t rows = max_rows == 0 ? rates.size() : std::min(rates.size(), max_rows);
  for (size_t i = 0; i < rows; ++i) {
    text += Fit(absl::StrFormat("%10.1f %12d  %s", rates[i].per_second, rates[i].total,
                                FitName(OneLine(rates[i].name), columns)),
                columns);
  }
  return text;
}

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
