// Objects received from a controller, after parsing and validation. Each Kubernetes object becomes
// one plain immutable value, which api/convert creates. All later stages may rely on the invariants
// documented here. Threads share the objects as shared_ptr<const T>.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nft/types/ip_address.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {

enum class Protocol : uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };  // IANA protocol numbers.

constexpr std::string_view ProtocolName(Protocol protocol) {
  return protocol == Protocol::kTcp ? "TCP" : protocol == Protocol::kUdp ? "UDP" : "SCTP";
}

enum class Kind : uint8_t { kService, kEndpointSlice, kNode, kServiceCidr };
inline constexpr std::array kKinds = {Kind::kService, Kind::kEndpointSlice, Kind::kNode,
                                      Kind::kServiceCidr};

constexpr std::string_view KindName(Kind kind) {
  constexpr std::string_view kNames[] = {"Service", "EndpointSlice", "Node", "ServiceCIDR"};
  return kNames[static_cast<size_t>(kind)];
}

// Number of objects by kind.
using KindCounts = std::array<size_t, 4>;
constexpr size_t Index(Kind kind) { return static_cast<size_t>(kind); }

struct ServicePort {
  std::string name;  // Empty for an unnamed port. Unique within the Service.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;       // 1..65535
  uint16_t node_port = 0;  // 0 if the port has no nodePort.
  uint16_t end_port = 0;   // Last port of a range, at least `port`. 0 for a single port.

  bool is_range() const { return end_port != 0; }
  // "1000-2000". Only for ranges.
  std::string RangeText() const { return std::to_string(port) + "-" + std::to_string(end_port); }
  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

// Selects which endpoints are eligible: all endpoints, or only endpoints on this node.
enum class TrafficPolicy : uint8_t { kCluster, kLocal };

struct Service {
  std::string key;  // "namespace/name"
  // metadata.creationTimestamp, or 0 if the Service has none.
  int64_t created_unix_nanos = 0;
  // False if the Service is stored but not programmed (headless, ExternalName, or assigned to
  // another proxy; S-1, S-2).
  bool proxied = true;
  // clusterIPs by Index(Family). Absent if the Service does not use the family (S-3).
  std::optional<IpAddress> cluster_ip[2];
  std::vector<IpAddress> external_ips;  // Addresses of both families, without duplicates.
  // Load balancer IPs with ipMode VIP (S-7), without duplicates.
  std::vector<IpAddress> load_balancer_ips;
  std::vector<ServicePort> ports;
  TrafficPolicy internal_policy = TrafficPolicy::kCluster;  // Applies to the clusterIPs (S-10).
  // Can be kLocal only for externally accessible Services (S-10).
  TrafficPolicy external_policy = TrafficPolicy::kCluster;
  // With external_policy kLocal: while no endpoint is on this node, external IPs and load balancer
  // IPs are not programmed, so the kernel routes their packets.
  bool route_without_local = false;
  // Client addresses that may use the load balancer IPs, for both families. If the list contains no
  // prefix of a family, all clients of that family are allowed. Prefixes of length 0 are omitted,
  // because they also allow all clients (S-11, S-12).
  std::vector<IpPrefix> source_ranges;
  // Returns true if source_ranges restricts the clients of the IP family.
  bool HasSourceRanges(Family family) const;
  // Timeout of client IP session affinity in seconds (S-14), or 0 if disabled.
  uint32_t affinity_seconds = 0;
  // Whether TCP connections to removed endpoints are reset. If absent, the node's default applies.
  std::optional<bool> reset_stale_tcp;
  PickBy pick_by = PickBy::kRandom;     // Not used with session affinity.
  uint32_t pick_table_size = 0;         // In kHashTableSizes, or 0 for the default.
  uint16_t health_check_node_port = 0;  // 0 if the port is unset or has no effect (S-13).
  std::string message;                  // The object as received, serialized. Used by List.
};

// Returns true if an address in `family` is reachable from outside the cluster on this port (S-9).
bool ExternallyAccessible(const Service& service, Family family, const ServicePort& port);

// Endpoint conditions, with defaults for absent conditions (S-24).
struct EndpointConditions {
  bool ready : 1 = true;
  bool serving : 1 = true;
  bool terminating : 1 = false;

  friend bool operator==(const EndpointConditions&, const EndpointConditions&) = default;
};

// Topology hints: the zones and nodes that should use the endpoint (S-25).
struct EndpointHints {
  std::vector<std::string> zones;  // Empty if there is no zone hint.
  std::vector<std::string> nodes;  // Empty if there is no node hint.

  friend bool operator==(const EndpointHints&, const EndpointHints&) = default;
};

inline constexpr uint16_t kMaxWeight = 1000;

struct Endpoint {
  IpAddress address;  // The first entry of addresses[] (S-22).
  EndpointConditions conditions;
  bool local = false;  // True if nodeName is this node (S-23).
  uint16_t hints = 0;  // Index in EndpointSlice::hints plus 1. 0 if there are no hints.
  // Share of new connections relative to other endpoints. 0 if the endpoint is drained.
  uint16_t weight = 1;
};
static_assert(sizeof(Endpoint) == 24);  // A cluster may have millions of endpoints.

struct EndpointPort {
  std::string name;
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;  // 1..65535
};

struct EndpointSlice {
  std::string key;          // "namespace/name"
  std::string service_key;  // Key of the slice's Service (S-18), or empty.
  Family family = Family::kIpv4;
  std::vector<EndpointPort> ports;   // Ports that have both name and number (S-20).
  std::vector<Endpoint> endpoints;   // All endpoints belong to `family`.
  std::vector<EndpointHints> hints;  // Distinct hints of the endpoints.
  std::string message;               // The object as received, serialized. Used by List.
};

struct Node {
  std::string name;
  // InternalIPs in order, followed by ExternalIPs in order (S-109).
  std::vector<IpAddress> addresses;
  std::string zone;  // Label topology.kubernetes.io/zone (S-29). Empty if unknown.
  // First podCIDR of each family (S-65), by Index(Family).
  std::optional<IpPrefix> pod_cidr[2];
  // True if load balancers may send traffic to this node. An eligible node is not being deleted and
  // has no deletion taint (S-253).
  bool eligible = true;
  std::string message;
};

struct ServiceCidr {
  std::string name;
  std::vector<IpPrefix> cidrs;
  std::string message;
};

// A change to one object. The change is an upsert if the pointer of the object's kind is set, and
// otherwise a removal.
struct Change {
  Kind kind = Kind::kService;
  std::string key;  // "namespace/name", or "name" for Node and ServiceCIDR.
  std::shared_ptr<const Service> service;
  std::shared_ptr<const EndpointSlice> slice;
  std::shared_ptr<const Node> node;
  std::shared_ptr<const ServiceCidr> service_cidr;
  // Services only: the value for ServiceEntry::first_seen, if the Service was stored before.
  std::optional<uint64_t> first_seen;
  // Time of the underlying event (S-346), if the sender provided the time.
  std::optional<std::chrono::system_clock::time_point> triggered;

  bool removal() const { return !service && !slice && !node && !service_cidr; }
  // Returns the object as received, serialized. Returns null for a removal.
  const std::string* message() const;
};

// Reason of a finding. svcmap.v1.ResultCode has the same values.
enum class FindingCode : uint8_t {
  kInvalid,
  kRequired,
  kUnsupported,
  kDuplicate,
  kTooMany,
  kForbidden,
  kLimit,
  kUnreadable,
  kNotStored,
  kKernelRejected,
  kOmitted,
};

// Returns the category of the error as in the Kubernetes API server, such as "Invalid value". Can
// be empty.
std::string_view CategoryOf(FindingCode code);

// A problem with one object: the reason why the object was rejected, or why a part of the object
// has no effect.
struct Finding {
  enum class Severity : uint8_t {
    kRejected,   // The new object was rejected. The previously accepted version stays in effect.
    kWarning,    // The object was accepted, but a part of the object has no effect.
    kNotStored,  // The new object was rejected, and there is no previously accepted version.
  };
  Severity severity = Severity::kRejected;
  Kind kind = Kind::kService;
  std::string key;
  std::string field;  // Field path, such as "spec.ports[1].port". Empty for the whole object.
  FindingCode code = FindingCode::kInvalid;
  std::string value;   // Value of the field, at most 64 bytes.
  std::string reason;  // "must be between 1 and 65535, inclusive"

  bool rejected() const { return severity != Severity::kWarning; }
  friend bool operator==(const Finding&, const Finding&) = default;

  // "Service shop/web rejected: spec.ports[1].port: Invalid value: 70000: must be between 1 and
  // 65535, inclusive; the previously accepted version, if any, stays in effect"
  std::string ToString() const;
};

}  // namespace svcmap::proxy
