// The rows of a Service in all maps and sets, in compact form. ServiceRows describes the desired
// state and, after the commit, the applied state.
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

// A destination of a Service port: an address of the Service with the port, or a node address with
// the nodePort.
struct ReachedAt {
  IpAddress address;
  uint16_t port = 0;
  DispatchKind kind = DispatchKind::kInternal;
  bool firewalled = false;  // True if only ServiceRows::sources may use the address (S-116).
  bool node_port = false;   // True if `address` is a node address and `port` is a nodePort.

  friend bool operator==(const ReachedAt&, const ReachedAt&) = default;
};

struct EndpointSet {
  uint32_t group = 0;  // Group number in the kernel, or 0 if the endpoint set is empty.
  // Endpoint of each slot. An endpoint has as many slots as its weight requires. The port is 0 in
  // the endpoint sets of a port range.
  std::vector<EndpointAddress> slots;

  friend bool operator==(const EndpointSet&, const EndpointSet&) = default;
};

// Session affinity of one Service port.
struct Affinity {
  struct Endpoint {
    EndpointAddress address;
    uint16_t number = 0;  // Endpoint number, constant while an endpoint set contains the endpoint.

    friend bool operator==(const Endpoint&, const Endpoint&) = default;
  };
  uint8_t timer = 0;                // Index of the affinity timeout in the table.
  uint32_t port_number = 0;         // 1..kMaxStickyPort
  uint16_t last_number = 0;         // The most recently allocated endpoint number.
  std::vector<Endpoint> endpoints;  // Endpoints of `cluster` and `local`, ascending.

  friend bool operator==(const Affinity&, const Affinity&) = default;
};

// Rows of one Service port in one IP family.
struct PortRows {
  Family family = Family::kIpv4;
  std::string name;  // Name of the port. May be empty.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  uint16_t end_port = 0;  // Last port of a range, or 0 for a single port.
  // Destinations, without addresses that belong to another Service.
  std::vector<ReachedAt> addresses;
  // True if an endpoint exists on any node, even if neither endpoint set contains the endpoint
  // (S-35). A packet for an empty endpoint set is dropped if `any` is true, and rejected otherwise.
  bool any = false;
  bool internal_local = false;       // True if the clusterIP uses the local endpoint set.
  PickBy pick_by = PickBy::kRandom;  // Applies to both endpoint sets, which are then hash tables.
  EndpointSet cluster;
  EndpointSet local;
  // Endpoints on this node, which may connect to themselves through the Service.
  std::vector<EndpointAddress> hairpins;
  std::optional<Affinity> affinity;

  bool is_range() const { return end_port != 0; }
  friend bool operator==(const PortRows&, const PortRows&) = default;
};

struct AddressRange {
  IpAddress first;
  IpAddress last;  // Last address of the range, inclusive.

  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

struct ServiceRows {
  std::vector<IpAddress> cluster_ips;
  // Addresses at which the node answers echo requests, without duplicates. Empty without
  // answer_ping.
  std::vector<IpAddress> ping_addresses;
  // Whether, and how, TCP connections to removed endpoints are reset.
  TcpResets tcp_resets = TcpResets::kOff;
  // Sources of both families that may use the load balancer IPs.
  std::vector<AddressRange> sources;
  std::vector<PortRows> ports;

  // ping_addresses needs no check, because it is empty if there are no clusterIPs and no ports.
  bool empty() const { return cluster_ips.empty() && ports.empty(); }
  friend bool operator==(const ServiceRows&, const ServiceRows&) = default;
};

// One element of a set or map, stored by value.
struct Row {
  nft::SetRef set;
  nft::FieldBytes key;
  nft::FieldBytes data;
  std::string comment;
  bool interval_end = false;
  nft::FieldBytes key_end;  // Last key of a range in a set with several fields.

  nft::ElementView view() const {
    return {set, key.bytes(), data.bytes(), comment, interval_end, key_end.bytes()};
  }
};

// Returns the lookup key of a Service port at one of its addresses.
nft::FieldBytes ServiceIpKey(const IpAddress& address, Protocol protocol, uint16_t port);
// Returns the lookup key of the block of ports with the high byte `block`.
nft::FieldBytes RangeBlockKey(const IpAddress& address, Protocol protocol, uint8_t block);

// Returns the key of all port ranges of an address and protocol.
nft::FieldBytes AddressAndProtocolKey(const IpAddress& address, Protocol protocol);

// Returns the element comment "namespace/name:port". If the comment exceeds 127 bytes, returns its
// start and a hash of the complete comment.
std::string ServiceComment(const std::string& service_key, const std::string& port_name);

// Returns the rows that belong only to this Service, without the slots of endpoint sets that have
// no affinity.
std::vector<Row> OwnRows(const std::string& service_key, const ServiceRows& service);

// Calls fn(const Row&) for each row that belongs only to this Service, including slots.
void ForEachOwnRow(const std::string& service_key, const ServiceRows& service,
                   const std::function<void(const Row&)>& fn);

// Returns the rows without data and comment: cluster-ips, ping-addresses, reset-services,
// self-endpoints and hairpin-connections. Several Services may share such a row.
std::vector<Row> SharedRows(const ServiceRows& service);

// Returns the number of the Service's source range rows in one family.
size_t SourceRowCount(const ServiceRows& service, Family family);

// Returns the map with the slots of a port without affinity: `endpoints` or `range-endpoints`.
nft::SetRef SlotsOf(const PortRows& port);

// Returns the row of a slot in an endpoint set without affinity. `slots` is a result of SlotsOf.
Row EndpointRow(nft::SetRef slots, uint32_t group, uint32_t slot, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
