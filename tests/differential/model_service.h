// A simple implementation of sections 1 and 2 in docs/specification.md. Determines one family's
// Service ports and their endpoints from the objects. The implementation is slow but independent of
// proxy/, because every rule is derived directly from a requirement.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "svcmap/v1/control.pb.h"
#include "tests/support/builders.h"

namespace svcmap::testing {

// Addresses and blocks of the reference model, parsed with inet_pton. Does not use the types in
// nft/, so that an error in these types does not also affect the model.
struct TextAddress {
  bool v6 = false;
  // Bytes of the address. An IPv4 address uses the first four bytes.
  std::array<uint8_t, 16> bytes = {};

  // Parses an address. Leading zeros of IPv4 octets are permitted, and octets are decimal (S-5).
  // Returns nullopt if `text` is not an address.
  static std::optional<TextAddress> Parse(const std::string& text);
  std::string ToString() const;
  bool IsLoopback() const;

  friend auto operator<=>(const TextAddress&, const TextAddress&) = default;
};

struct TextPrefix {
  TextAddress address;
  int length = 0;

  // Parses text such as "10.0.0.0/8". Host bits are ignored, and the length may have leading zeros
  // (S-5).
  static std::optional<TextPrefix> Parse(const std::string& text);
  bool Contains(const TextAddress& address) const;
};

struct ModelEndpoint {
  TextAddress ip;
  uint16_t port = 0;  // 0 for a port range.
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  bool local = false;
  bool drained = false;  // True if the endpoint receives no new connections.
  uint32_t weight = 1;
  std::set<std::string> zone_hints;
  std::set<std::string> node_hints;

  // Returns true for endpoints that the specification calls ST.
  bool ServingTerminating() const { return !ready && serving && terminating; }
  // Returns the address and port, for example "10.244.1.11:8080" or "[fd00::1]:8080".
  std::string ToString() const;
};

using ModelEndpoints = std::vector<ModelEndpoint>;  // Endpoints in the order of S-27.

// Properties of the agent's node.
struct ModelNode {
  std::string name;
  std::string zone;                            // Zone of the node. Empty if the node has no zone.
  std::vector<std::optional<TextAddress>> ip;  // Addresses of the node by family (S-109).
  std::vector<std::optional<TextPrefix>> pod_cidr;

  static ModelNode Of(const Objects& objects, const std::string& name);
};

// One port of one Service in one family.
struct ModelServicePort {
  std::string service;  // Key of the Service, for example "shop/web".
  std::string name;
  int64_t created = 0;      // Creation time of the Service, or 0 if the Service has none.
  uint64_t first_seen = 0;  // Revision at which the agent received the Service first.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  uint16_t end_port = 0;   // Last port of a range, or 0 for a single port.
  uint16_t node_port = 0;  // nodePort of the port, or 0 if the port has no nodePort.
  TextAddress cluster_ip;
  std::vector<TextAddress> external_ips;
  std::vector<TextAddress> load_balancer_ips;
  // Sources that may connect to load balancer IPs, or empty if all sources may connect.
  std::vector<TextPrefix> ranges;
  bool external_local = false;
  bool route_without_local = false;  // Annotation svcmap/no-local-endpoint.
  bool internal_local = false;
  bool affinity = false;
  std::string pick;    // ServiceSpec.endpoint_pick, or empty if it has no effect.
  int table_size = 0;  // ServiceSpec.pick_table_size
  ModelEndpoints endpoints;

  // Name of the agent's node. Each Service port stores the name and zone of the node, because
  // endpoint hints refer to nodes and zones.
  std::string node_name;
  std::string node_zone;

  bool IsRange() const { return end_port != 0; }
  std::string ToString() const;  // Returns the port's name, for example "ns/web:http/tcp".
  bool ExternallyAccessible() const;
  ModelEndpoints ClusterSet() const;
  ModelEndpoints LocalSet() const;
  // Returns true if the node routes packets to the address while it has no endpoint.
  bool MayBeRouted(const TextAddress& address) const;
  // Returns true if the node routes packets to the address now.
  bool IsRouted(const TextAddress& address) const;
  bool HasEndpoints() const;  // Returns the value that the specification calls HAS.
  ModelEndpoints ReachableSet() const;
};

// Returns the Service ports of one family.
std::vector<ModelServicePort> ModelServicePorts(const Objects& objects, const ModelNode& node,
                                                bool v6);

// Returns the Service with this key, for example "shop/web", or null.
const v1::Service* FindService(const Objects& objects, const std::string& key);

// Returns the TCP endpoints ("IP:port") in the Service's EndpointSlices of one family, whatever
// their conditions.
std::set<std::string> TcpEndpointsInSlices(const Objects& objects, const v1::Service& service,
                                           bool v6);

}  // namespace svcmap::testing
