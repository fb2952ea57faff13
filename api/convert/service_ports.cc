#include "api/convert/service_parts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

// Finds duplicate names and numbers among the ports of a Service.
class PortsSeen {
 public:
  explicit PortsSeen(Report& report) : report_(report) {}

  void Add(int index, const proxy::ServicePort& port) {
    if (const auto [seen, added] = names_.emplace(port.name, index); !added) {
      Reject(index, "name", Quote(port.name), "", seen->second);
    }
    const std::string protocol(proxy::ProtocolName(port.protocol));
    if (const auto [seen, added] = ports_.emplace(std::pair(port.port, port.protocol), index);
        !added) {
      Reject(index, "port", absl::StrCat(port.port), protocol, seen->second);
    }
    if (port.is_range()) {
      if (const std::optional<int> other = AddRange(index, port)) {
        Reject(index, "endPort", port.RangeText(), protocol, *other);
      }
    }
    if (port.node_port == 0) return;
    if (const auto [seen, added] =
            node_ports_.emplace(std::pair(port.node_port, port.protocol), index);
        !added) {
      Reject(index, "nodePort", absl::StrCat(port.node_port), protocol, seen->second);
    }
  }

  // Returns the index of a port whose range overlaps. If there is none, adds the range and returns
  // nullopt.
  std::optional<int> AddRange(int index, const proxy::ServicePort& port) {
    // Ranges ascend by first port and do not overlap, so only the neighbors can overlap.
    auto& ranges = ranges_[port.protocol];
    const auto after = ranges.upper_bound(port.port);
    if (after != ranges.end() && after->first <= port.end_port) return after->second.index;
    if (after != ranges.begin()) {
      const auto& before = *std::prev(after);
      if (before.second.last >= port.port) return before.second.index;
    }
    ranges[port.port] = {port.end_port, index};
    return std::nullopt;
  }

  // Returns the index of the port with the name, or nullopt.
  std::optional<int> Find(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  using NumberAndProtocol = std::pair<uint16_t, proxy::Protocol>;

  void Reject(int index, const char* field, std::string value, const std::string& protocol,
              int other) {
    report_.Reject(
        absl::StrCat("spec.ports[", index, "].", field),
        Duplicate(std::move(value),
                  absl::StrCat("already used", protocol.empty() ? "" : " with protocol " + protocol,
                               " by spec.ports[", other, "]")));
  }

  struct Range {
    uint16_t last;
    int index;
  };

  Report& report_;
  absl::flat_hash_map<proxy::Protocol, std::map<uint16_t, Range>> ranges_;  // By first port.
  absl::flat_hash_map<std::string, int> names_;
  absl::flat_hash_map<NumberAndProtocol, int> ports_;
  absl::flat_hash_map<NumberAndProtocol, int> node_ports_;
};

// Makes a port a range. `entry` has the form "NAME=LAST". Returns the reason if this is impossible.
std::optional<FieldError> AddEndPort(std::string_view entry, PortsSeen& seen,
                                     proxy::Service& service) {
  const size_t equals = entry.find('=');
  const std::string value = Quote(entry);
  int last = 0;
  // The name of an unnamed port is empty.
  if (equals == std::string_view::npos ||
      !absl::SimpleAtoi(std::string(entry.substr(equals + 1)), &last)) {
    return Invalid(value, "must have the form PORT-NAME=LAST-PORT");
  }
  const std::optional<int> index = seen.Find(std::string(entry.substr(0, equals)));
  if (!index) return Invalid(value, "must contain the name of a port of the Service");
  proxy::ServicePort port = service.ports[static_cast<size_t>(*index)];
  const std::string field = absl::StrCat("spec.ports[", *index, "]");
  if (last < port.port || last > 65535) {
    return Invalid(value, OutOfRange(last, port.port, 65535).detail);
  }
  if (port.node_port != 0) {
    return Invalid(value, absl::StrCat("must not name a port with a nodePort, but ", field,
                                       " has nodePort ", port.node_port));
  }
  port.end_port = static_cast<uint16_t>(last);
  if (const std::optional<int> other = seen.AddRange(*index, port)) {
    return Duplicate(value, absl::StrCat("the range ", port.RangeText(),
                                         " overlaps the range of spec.ports[", *other, "]"));
  }
  service.ports[static_cast<size_t>(*index)] = std::move(port);
  return std::nullopt;
}

void ConvertEndPorts(const v1::ObjectMeta& metadata, PortsSeen& seen, proxy::Service& service,
                     Report& report) {
  const std::string* entries = FindAnnotation(metadata, kEndPortsAnnotation);
  if (entries == nullptr) return;
  const std::vector<std::string> split = absl::StrSplit(*entries, ',');
  for (const std::string& entry : split) {
    if (auto error = AddEndPort(Trim(entry), seen, service)) {
      report.Warn(AnnotationField(kEndPortsAnnotation), Ignored(*std::move(error)));
    }
  }
}

// Maximum number of ports times addresses of a Service for each IP family. A port range counts as
// proxy::PortElementCount() ports. Each port has one map element for each clusterIP, externalIP and
// load balancer IP. A few kilobytes of ports and addresses can multiply to millions of map
// elements: a Service with 5 million elements used 2 GB of memory, and each commit took 15 s. A
// Service can use all 65,535 ports of a protocol at one address of each family.
constexpr size_t kMaxPortsTimesAddresses = 65'536;

size_t CountOfFamily(const std::vector<IpAddress>& addresses, Family family) {
  return static_cast<size_t>(std::ranges::count(addresses, family, &IpAddress::family));
}

// Counts an address with several roles once, because such an address has one map element per port.
size_t CountAddresses(const proxy::Service& service, Family family) {
  absl::flat_hash_set<IpAddress> addresses = {*service.cluster_ip[Index(family)]};
  for (const auto* list : {&service.external_ips, &service.load_balancer_ips}) {
    for (const IpAddress& address : *list) {
      if (address.family() == family) addresses.insert(address);
    }
  }
  return addresses.size();
}

// Returns the field that contributes most to the size of the Service, and the number of its items.
std::pair<std::string, size_t> LargestField(const proxy::Service& service, Family family,
                                            size_t addresses) {
  if (service.ports.size() >= addresses) return {"spec.ports", service.ports.size()};
  const size_t external = CountOfFamily(service.external_ips, family);
  const size_t load_balancer = CountOfFamily(service.load_balancer_ips, family);
  if (external >= load_balancer) return {"spec.externalIPs", external};
  return {"status.loadBalancer.ingress", load_balancer};
}

// A reason to reject the Service.
struct SizeError {
  std::string field;
  FieldError error;
};

std::optional<SizeError> FindSizeError(const proxy::Service& service) {
  size_t ports = 0;
  bool any_range = false;
  for (const proxy::ServicePort& port : service.ports) {
    ports += proxy::PortElementCount(port);
    any_range |= port.is_range();
  }
  for (const Family family : kFamilies) {
    if (!service.cluster_ip[Index(family)]) continue;  // The family is not programmed.
    const size_t addresses = CountAddresses(service, family);
    if (ports * addresses <= kMaxPortsTimesAddresses) continue;
    const auto [field, items] = LargestField(service, family, addresses);
    return SizeError{
        field,
        {proxy::FindingCode::kTooMany, absl::StrCat(items),
         absl::StrCat("the number of ", any_range ? "map elements of the ports (" : "ports (",
                      ports, ") times the number of ", std::string(FamilyName(family)),
                      " addresses (", addresses, ") exceeds svcmap's limit of ",
                      kMaxPortsTimesAddresses)}};
  }
  return std::nullopt;
}

}  // namespace

void ConvertServicePorts(const v1::Service& message, proxy::Service& service, Report& report) {
  const v1::ServiceSpec& spec = message.spec();
  if (spec.ports_size() == 0) {
    report.Reject("spec.ports", Required("a Service with a cluster IP must have a port"));
  }
  PortsSeen seen(report);
  for (int i = 0; i < spec.ports_size() && !report.rejected(); ++i) {
    const v1::ServicePort& port = spec.ports(i);
    const auto field = [i](const char* name) { return absl::StrCat("spec.ports[", i, "].", name); };
    const auto protocol = ParseProtocol(port.protocol());
    if (port.port() < 1 || port.port() > 65535) {
      report.Reject(field("port"), OutOfRange(port.port(), 1, 65535));
    } else if (port.node_port() < 0 || port.node_port() > 65535) {
      report.Reject(field("nodePort"), OutOfRange(port.node_port(), 0, 65535));
    } else if (port.end_port() != 0 && (port.end_port() < port.port() || port.end_port() > 65535)) {
      report.Reject(field("endPort"), OutOfRange(port.end_port(), port.port(), 65535));
    } else if (port.end_port() != 0 && port.node_port() != 0) {
      report.Reject(field("nodePort"),
                    Invalid(absl::StrCat(port.node_port()), "must be 0 for a port range"));
    } else if (!protocol) {
      report.Reject(field("protocol"), UnsupportedProtocol(port.protocol()));
    } else if (port.name().empty() && spec.ports_size() > 1) {
      report.Reject(field("name"), Required("every port of a multi-port Service must have a name"));
    } else if (!port.name().empty() && !IsDnsLabel(port.name())) {
      report.Reject(field("name"), Invalid(Quote(port.name()), kLabelDetail));
    } else {
      service.ports.push_back({port.name(), *protocol, static_cast<uint16_t>(port.port()),
                               static_cast<uint16_t>(port.node_port()),
                               static_cast<uint16_t>(port.end_port())});
      seen.Add(i, service.ports.back());
    }
  }
  if (!report.rejected()) ConvertEndPorts(message.metadata(), seen, service, report);
}

std::vector<uint16_t> EndPorts(const v1::Service& message) {
  std::vector<uint16_t> end_ports;
  const auto service = ConvertService(message, "", {}).value;
  const bool converted = service != nullptr && service->proxied;
  for (const v1::ServicePort& port : message.spec().ports()) {
    end_ports.push_back(converted ? service->ports[end_ports.size()].end_port
                                  : static_cast<uint16_t>(port.end_port()));
  }
  return end_ports;
}

void CheckServiceSize(const v1::Service& message, proxy::Service& service, Report& report) {
  std::optional<SizeError> found = FindSizeError(service);
  const std::string* end_ports = FindAnnotation(message.metadata(), kEndPortsAnnotation);
  if (found && end_ports != nullptr && !report.rejected()) {
    // The annotation must not affect the other ports.
    report.Warn(AnnotationField(kEndPortsAnnotation),
                {proxy::FindingCode::kTooMany, Quote(*end_ports),
                 found->error.detail + "; the annotation is ignored"});
    for (size_t i = 0; i < service.ports.size(); ++i) {
      service.ports[i].end_port =
          static_cast<uint16_t>(message.spec().ports(static_cast<int>(i)).end_port());
    }
    found = FindSizeError(service);
  }
  if (found) report.Reject(std::move(found->field), std::move(found->error));
}

}  // namespace svcmap::api
