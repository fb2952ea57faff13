// The rows that a Service contributes to the maps and sets, in a form that is small to keep: this
// is both what we want and, once the kernel has committed it, what we know to be applied.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nft/model/field.h"
#include "nft/model/transaction.h"
#include "proxy/resolve/endpoints.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {

// Where the port is reached: at one of its Service's addresses, or at a node's with its nodePort.
struct ReachedAt {
  IpAddress address;
  uint16_t port = 0;
  DispatchKind kind = DispatchKind::kPlain;

  friend bool operator==(const ReachedAt&, const ReachedAt&) = default;
};

// One Service port in one family.
struct PortRows {
  Family family = Family::kIpv4;
  std::string name;  // Of the port; may be empty.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  std::vector<ReachedAt> addresses;  // Without those that are another Service's.
  uint32_t group = 0;                // Its number in the endpoints map; 0: no endpoints.
  std::vector<EndpointAddress> slots;
  std::vector<EndpointAddress> local;

  friend bool operator==(const PortRows&, const PortRows&) = default;
};

struct ServiceRows {
  std::vector<IpAddress> cluster_ips;
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

  nft::ElementView view() const { return {set, key.bytes(), data.bytes(), comment, interval_end}; }
};

// "namespace/name:port" as the comment of an element: where it is longer than 127 bytes, its start
// and a hash of the whole.
std::string ServiceComment(const std::string& service_key, const std::string& port_name);

// Rows that belong to this Service alone: service-ips or no-endpoint-services.
std::vector<Row> OwnRows(const std::string& service_key, const ServiceRows& service);

// Rows that other Services may contribute as well: cluster-ips, hairpin-connections.
std::vector<Row> SharedRows(const ServiceRows& service);

Row EndpointRow(Family family, uint32_t group, uint32_t slot, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
