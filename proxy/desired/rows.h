// The rows that a Service contributes to the maps and sets, in a form that is small to keep: this
// is both what we want and, once the kernel has committed it, what we know to be applied.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nft/model/field.h"
#include "nft/model/transaction.h"
#include "proxy/resolve/endpoints.h"
#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

// Where the port is reached: at one of its Service's addresses, or at a node's with its nodePort.
struct ReachedAt {
  IpAddress address;
  uint16_t port = 0;
  DispatchKind kind = DispatchKind::kInternal;
  bool firewalled = false;  // Only for ServiceRows::sources (S-116).

  friend bool operator==(const ReachedAt&, const ReachedAt&) = default;
};

struct EndpointSet {
  uint32_t group = 0;                  // Its number in the kernel; 0: the set is empty.
  std::vector<EndpointAddress> slots;  // One each, or as many as its weight says.

  friend bool operator==(const EndpointSet&, const EndpointSet&) = default;
};

// Session affinity of one Service port.
struct Affinity {
  struct Endpoint {
    EndpointAddress address;
    uint16_t number = 0;  // Its own as long as it is in one of the sets.

    friend bool operator==(const Endpoint&, const Endpoint&) = default;
  };
  uint8_t timer = 0;                // Of the table's timeouts.
  uint32_t port_number = 0;         // 1..kMaxStickyPort
  uint16_t last_number = 0;         // The endpoint number given last.
  std::vector<Endpoint> endpoints;  // Of both sets, ascending.

  friend bool operator==(const Affinity&, const Affinity&) = default;
};

// One Service port in one family.
struct PortRows {
  Family family = Family::kIpv4;
  std::string name;  // Of the port; may be empty.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  std::vector<ReachedAt> addresses;  // Without those that are another Service's.
  // Somebody somewhere could answer, even if not from a set of ours (S-35): who finds no endpoint
  // is dropped. Otherwise everything is rejected.
  bool any = false;
  bool internal_local = false;  // The clusterIP leads to the local set.
  EndpointSet cluster;
  EndpointSet local;
  std::vector<EndpointAddress> hairpins;  // Endpoints here, which may connect to themselves.
  std::optional<Affinity> affinity;

  friend bool operator==(const PortRows&, const PortRows&) = default;
};

struct AddressRange {
  IpAddress first;
  IpAddress last;  // Included.

  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

struct ServiceRows {
  std::vector<IpAddress> cluster_ips;
  std::vector<AddressRange> sources;  // That may use its load balancer IPs, both families.
  std::vector<PortRows> ports;

  bool empty() const { return cluster_ips.empty() && ports.empty(); }
  friend bool operator==(const ServiceRows&, const ServiceRows&) = default;
};

// One element by value.
struct Row {
  nft::SetRef set;
  nft::FieldBytes key;
  nft::FieldBytes data;
  std::string comment;
  bool interval_end = false;
  nft::FieldBytes key_end;  // Of ranges in sets with several fields.

  nft::ElementView view() const {
    return {set, key.bytes(), data.bytes(), comment, interval_end, key_end.bytes()};
  }
};

// What a Service port is found by at one of its addresses.
nft::FieldBytes ServiceIpKey(const IpAddress& address, Protocol protocol, uint16_t port);

// "namespace/name:port" as the comment of an element: where it is longer than 127 bytes, its start
// and a hash of the whole.
std::string ServiceComment(const std::string& service_key, const std::string& port_name);

// Rows that belong to this Service alone, but for the slots of its endpoint sets without affinity.
std::vector<Row> OwnRows(const std::string& service_key, const ServiceRows& service);

// Calls fn(const Row&) for each of its own rows, slots included.
void ForEachOwnRow(const std::string& service_key, const ServiceRows& service,
                   const std::function<void(const Row&)>& fn);

// Rows that other Services may contribute as well: cluster-ips, hairpin-connections.
std::vector<Row> SharedRows(const ServiceRows& service);

// How many of its own rows in one family are source ranges.
size_t SourceRowCount(const ServiceRows& service, Family family);

// A slot of a set without affinity.
Row EndpointRow(Family family, uint32_t group, uint32_t slot, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
