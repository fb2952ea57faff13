#include "proxy/desired/rows.h"

#include <xxhash.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/port_range.h"

namespace svcmap::proxy {
namespace {

nft::FieldBytes ProtocolOnly(nft::FieldBytes key, Protocol protocol) {
  return key.AppendU8(static_cast<uint8_t>(protocol)).PadToWord();
}

nft::FieldBytes ProtocolAndPort(nft::FieldBytes key, Protocol protocol, uint16_t port) {
  return ProtocolOnly(key, protocol).AppendU16Be(port).PadToWord();
}

nft::FieldBytes Address(const IpAddress& address) {
  return nft::FieldBytes().Append(address.bytes());
}

nft::FieldBytes EndpointBytes(const EndpointAddress& endpoint) {
  return Address(endpoint.ip).AppendU16Be(endpoint.port).PadToWord();
}

const EndpointSet& SetFor(const PortRows& port, DispatchKind kind) {
  return kind == DispatchKind::kInternal && port.internal_local ? port.local : port.cluster;
}

Descriptor DescriptorOf(const PortRows& port, DispatchKind kind, const EndpointSet& set) {
  Descriptor descriptor{.kind = kind,
                        .endpoints = static_cast<uint32_t>(set.slots.size()),
                        .group = set.group,
                        .pick_by = port.pick_by};
  if (port.affinity && set.group != 0) {
    descriptor.sticky = {.timer = port.affinity->timer, .local = &set == &port.local};
  }
  return descriptor;
}

class OwnRowsBuilder {
 public:
  OwnRowsBuilder(const std::string& service_key, const ServiceRows& service)
      : service_key_(service_key), service_(service) {}

  std::vector<Row> Build() {
    for (const PortRows& port : service_.ports) {
      const std::string comment = ServiceComment(service_key_, port.name);
      for (const ReachedAt& at : port.addresses) AddAddress(port, at, comment);
      if (!port.affinity) continue;
      for (const EndpointSet* set : {&port.cluster, &port.local}) AddSticky(port, *set, comment);
    }
    return std::move(rows_);
  }

 private:
  Row& Add(Family family, SetIndex set, nft::FieldBytes key, const std::string& comment = "") {
    return rows_.emplace_back(Row{.set = {family, set}, .key = key, .comment = comment});
  }

  void AddAddress(const PortRows& port, const ReachedAt& at, const std::string& comment) {
    const IpAddress descriptor = DescriptorOf(port, at.kind, SetFor(port, at.kind)).For(at.address);
    const auto add = [&](SetIndex set, SetIndex no_endpoint_set, const nft::FieldBytes& key) {
      Row& row = Add(port.family, port.any ? set : no_endpoint_set, key, comment);
      if (port.any) row.data = Address(descriptor);
    };
    if (port.is_range()) {
      if (at.firewalled) AddRangeFirewall(port, at);
      const PortElements elements = DividePorts(port.port, port.end_port);
      for (const uint16_t number : elements.ports) {
        add(kRangePorts, kNoEndpointRangePorts, ServiceIpKey(at.address, port.protocol, number));
      }
      for (const uint8_t block : elements.blocks) {
        add(kRangeBlocks, kNoEndpointRangeBlocks, RangeBlockKey(at.address, port.protocol, block));
      }
    } else {
      const nft::FieldBytes key = ServiceIpKey(at.address, port.protocol, at.port);
      if (at.firewalled) {
        AddFirewall(port.family, kFirewallIps, kFirewallSources, key);
      }
      add(kServiceIps, at.node_port ? kNoEndpointNodePorts : kNoEndpointServices, key);
    }
    if (port.any && at.kind == DispatchKind::kExternalLocal && port.local.group != 0) {
      AddLocalSet(port, at, descriptor);
    }
  }

  // Several addresses may share a descriptor. In IPv4, all addresses of a port share one
  // descriptor.
  void AddLocalSet(const PortRows& port, const ReachedAt& at, const IpAddress& descriptor) {
    if (!local_set_keys_.insert(descriptor).second) return;
    const Descriptor local = DescriptorOf(port, at.kind, port.local);
    Add(port.family, kLocalSets, Address(descriptor)).data = Address(local.For(at.address));
  }

  // The port ranges of an address and protocol share these rows, because they belong to one
  // Service.
  void AddRangeFirewall(const PortRows& port, const ReachedAt& at) {
    if (!range_firewalls_.emplace(at.address, port.protocol).second) return;
    AddFirewall(port.family, kRangeFirewallIps, kRangeFirewallSources,
                AddressAndProtocolKey(at.address, port.protocol));
  }

  // These rows have no comment. Otherwise, they would be deleted and added if the Service gets
  // another name, and packets could pass or be dropped meanwhile.
  void AddFirewall(Family family, SetIndex ips, SetIndex sources, const nft::FieldBytes& key) {
    Add(family, ips, key);
    for (const AddressRange& range : service_.sources) {
      if (range.first.family() != family) continue;
      nft::FieldBytes first = key, last = key;
      Add(family, sources, first.Append(range.first.bytes())).key_end =
          last.Append(range.last.bytes());
    }
  }

  void AddSticky(const PortRows& port, const EndpointSet& set, const std::string& comment) {
    const Affinity& affinity = *port.affinity;
    const bool local = &set == &port.local;
    // Tracks added endpoints, because an endpoint may occupy several slots.
    std::vector<bool> added(affinity.endpoints.size());
    for (uint32_t slot = 0; slot < set.slots.size(); ++slot) {
      const EndpointAddress& endpoint = set.slots[slot];
      const size_t place = PlaceOf(affinity, endpoint);
      const uint32_t choice = Choice(affinity.port_number, affinity.endpoints[place].number);
      Add(port.family, kAffinitySlots,
          nft::FieldBytes().AppendU16Be(static_cast<uint16_t>(set.group)).AppendU32Host(slot))
          .data = ChoiceBytes(port.family, choice);
      if (added[place]) continue;
      added[place] = true;
      Add(port.family, StickyEndpointsOf(port, local), nft::FieldBytes().AppendU32Be(choice),
          comment)
          .data = port.is_range() ? Address(endpoint.ip) : EndpointBytes(endpoint);
    }
  }

  static SetIndex StickyEndpointsOf(const PortRows& port, bool local) {
    if (port.is_range()) return local ? kRangeAffinityLocalEndpoints : kRangeAffinityEndpoints;
    return local ? kAffinityLocalEndpoints : kAffinityEndpoints;
  }

  static size_t PlaceOf(const Affinity& affinity, const EndpointAddress& endpoint) {
    const auto place =
        std::ranges::lower_bound(affinity.endpoints, endpoint, {}, &Affinity::Endpoint::address);
    return static_cast<size_t>(place - affinity.endpoints.begin());
  }

  // Returns the bytes of `choice`. In IPv6, appends the complement of these bytes, so that writing
  // all bytes does not change a checksum.
  static nft::FieldBytes ChoiceBytes(Family family, uint32_t choice) {
    nft::FieldBytes bytes = nft::FieldBytes().AppendU32Be(choice);
    if (family == Family::kIpv6) bytes.AppendU32Be(~choice);
    return bytes;
  }

  const std::string& service_key_;
  const ServiceRows& service_;
  std::vector<Row> rows_;
  absl::flat_hash_set<IpAddress> local_set_keys_;  // Descriptors with a row in `local-sets`.
  absl::flat_hash_set<std::pair<IpAddress, Protocol>> range_firewalls_;  // With rows.
};

// Adds a row for each destination of the port at which an endpoint has the same address and port.
// Endpoints that are clusterIPs are rejected (S-98).
void AddSelfEndpoints(const PortRows& port, std::vector<Row>& rows) {
  absl::flat_hash_set<std::pair<IpAddress, uint16_t>> destinations;
  for (const ReachedAt& at : port.addresses) {
    if (at.kind == DispatchKind::kInternal) continue;
    destinations.emplace(at.address, port.is_range() ? 0 : at.port);
  }
  for (const EndpointSet* set : {&port.cluster, &port.local}) {
    for (const EndpointAddress& endpoint : set->slots) {
      if (destinations.empty()) return;
      if (destinations.erase({endpoint.ip, endpoint.port}) == 0) continue;
      rows.push_back({.set = {port.family, kSelfEndpoints},
                      .key = AddressAndProtocolKey(endpoint.ip, port.protocol)});
    }
  }
}

}  // namespace

nft::FieldBytes ServiceIpKey(const IpAddress& address, Protocol protocol, uint16_t port) {
  return ProtocolAndPort(Address(address), protocol, port);
}

nft::FieldBytes RangeBlockKey(const IpAddress& address, Protocol protocol, uint8_t block) {
  return ProtocolOnly(Address(address), protocol).AppendU8(block).PadToWord();
}

nft::FieldBytes AddressAndProtocolKey(const IpAddress& address, Protocol protocol) {
  return ProtocolOnly(Address(address), protocol);
}

std::string ServiceComment(const std::string& service_key, const std::string& port_name) {
  std::string comment = service_key + ":" + port_name;
  if (comment.size() <= nft::Transaction::kMaxComment) return comment;
  char hash[20];
  std::snprintf(hash, sizeof(hash), "~%016" PRIx64,
                static_cast<uint64_t>(XXH3_64bits(comment.data(), comment.size())));
  comment.resize(nft::Transaction::kMaxComment - 17);
  return comment + hash;
}

std::vector<Row> OwnRows(const std::string& service_key, const ServiceRows& service) {
  return OwnRowsBuilder(service_key, service).Build();
}

void ForEachOwnRow(const std::string& service_key, const ServiceRows& service,
                   const std::function<void(const Row&)>& fn) {
  for (const Row& row : OwnRows(service_key, service)) fn(row);
  for (const PortRows& port : service.ports) {
    if (port.affinity) continue;
    for (const EndpointSet* set : {&port.cluster, &port.local}) {
      uint32_t slot = 0;
      for (const EndpointAddress& endpoint : set->slots) {
        fn(EndpointRow(SlotsOf(port), set->group, slot++, endpoint));
      }
    }
  }
}

size_t SourceRowCount(const ServiceRows& service, Family family) {
  const auto ranges =
      std::count_if(service.sources.begin(), service.sources.end(),
                    [family](const AddressRange& range) { return range.first.family() == family; });
  size_t addresses = 0;
  absl::flat_hash_set<std::pair<IpAddress, Protocol>> of_ranges;
  for (const PortRows& port : service.ports) {
    if (port.family != family) continue;
    for (const ReachedAt& at : port.addresses) {
      if (!at.firewalled) continue;
      if (!port.is_range() || of_ranges.emplace(at.address, port.protocol).second) ++addresses;
    }
  }
  return addresses * static_cast<size_t>(ranges);
}

std::vector<Row> SharedRows(const ServiceRows& service) {
  std::vector<Row> rows;
  const auto add = [&rows](SetIndex set, const std::vector<IpAddress>& addresses) {
    for (const IpAddress& address : addresses) {
      rows.push_back({.set = {address.family(), set}, .key = Address(address)});
    }
  };
  add(kClusterIps, service.cluster_ips);
  add(kPingAddresses, service.ping_addresses);
  for (const PortRows& port : service.ports) {
    if (service.tcp_resets == TcpResets::kStrict && port.protocol == Protocol::kTcp &&
        !port.is_range()) {
      for (const ReachedAt& at : port.addresses) {
        rows.push_back({.set = {port.family, kResetServices},
                        .key = ServiceIpKey(at.address, port.protocol, at.port)});
      }
    }
    AddSelfEndpoints(port, rows);
    for (const EndpointAddress& endpoint : port.hairpins) {
      const nft::FieldBytes addresses = Address(endpoint.ip).Append(endpoint.ip.bytes());
      rows.push_back(
          port.is_range()
              ? Row{{port.family, kRangeHairpins}, ProtocolOnly(addresses, port.protocol)}
              : Row{{port.family, kHairpinConnections},
                    ProtocolAndPort(addresses, port.protocol, endpoint.port)});
    }
  }
  return rows;
}

nft::SetRef SlotsOf(const PortRows& port) {
  return {port.family, port.is_range() ? kRangeEndpoints : kEndpoints};
}

Row EndpointRow(nft::SetRef slots, uint32_t group, uint32_t slot, const EndpointAddress& endpoint) {
  Row row;
  row.set = slots;
  slots.family == Family::kIpv4 ? row.key.AppendU24Be(group) : row.key.AppendU32Be(group);
  row.key.AppendU32Host(slot);
  row.data = slots.set == kRangeEndpoints ? Address(endpoint.ip) : EndpointBytes(endpoint);
  return row;
}

}  // namespace svcmap::proxy
