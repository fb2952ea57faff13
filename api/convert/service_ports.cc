#include "api/convert/service_parts.h"

#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/metadata.h"
#include "api/convert/quote.h"

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
    if (port.is_range()) AddRange(index, port, protocol);
    if (port.node_port == 0) return;
    if (const auto [seen, added] =
            node_ports_.emplace(std::pair(port.node_port, port.protocol), index);
        !added) {
      Reject(index, "nodePort", absl::StrCat(port.node_port), protocol, seen->second);
    }
  }

 private:
  void AddRange(int index, const proxy::ServicePort& port, const std::string& protocol) {
    // Ranges ascend by first port and do not overlap, so only the neighbors can overlap.
    auto& ranges = ranges_[port.protocol];
    const auto after = ranges.upper_bound(port.port);
    const auto reject = [&](int other) {
      Reject(index, "endPort", port.RangeText(), protocol, other);
    };
    if (after != ranges.end() && after->first <= port.end_port) return reject(after->second.index);
    if (after != ranges.begin()) {
      const auto& before = *std::prev(after);
      if (before.second.last >= port.port) return reject(before.second.index);
    }
    ranges[port.port] = {port.end_port, index};
  }

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

}  // namespace

void ConvertServicePorts(const v1::ServiceSpec& spec, proxy::Service& service, Report& report) {
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
}

}  // namespace svcmap::api
