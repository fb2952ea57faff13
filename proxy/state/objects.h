// What a controller told us, parsed and validated: plain immutable values, one per Kubernetes
// object. api/convert makes them; everything behind it may rely on the invariants written here.
// They are shared between threads as shared_ptr<const T> and never change.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nft/types/ip_address.h"

namespace svcmap::proxy {

enum class Protocol : uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };  // IANA protocol numbers.

constexpr std::string_view ProtocolName(Protocol protocol) {
  switch (protocol) {
    case Protocol::kTcp:
      return "TCP";
    case Protocol::kUdp:
      return "UDP";
    case Protocol::kSctp:
      return "SCTP";
  }
  return "?";
}

enum class Kind : uint8_t { kService, kEndpointSlice, kNode, kServiceCidr };

constexpr std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kService:
      return "Service";
    case Kind::kEndpointSlice:
      return "EndpointSlice";
    case Kind::kNode:
      return "Node";
    case Kind::kServiceCidr:
      return "ServiceCIDR";
  }
  return "?";
}

struct ServicePort {
  std::string name;  // Empty for the unnamed port. Unique in the Service.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;       // 1..65535
  uint16_t node_port = 0;  // 0: none

  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

// Which endpoints traffic may be sent to.
enum class TrafficPolicy : uint8_t { kCluster, kLocal };

struct Service {
  std::string key;                 // "namespace/name"
  int64_t created_unix_nanos = 0;  // metadata.creationTimestamp; 0: unknown, counts as oldest.
  // False: known, but nothing of it is programmed (headless, ExternalName, another proxy's; S-1,
  // S-2).
  bool proxied = true;
  std::optional<IpAddress> cluster_ip[2];    // By Index(Family). Absent: not in this family (S-3).
  std::vector<IpAddress> external_ips;       // Both families, no duplicates.
  std::vector<IpAddress> load_balancer_ips;  // ipMode VIP only (S-7), no duplicates.
  std::vector<ServicePort> ports;
  TrafficPolicy internal_policy = TrafficPolicy::kCluster;  // Of its clusterIPs (S-10).
  TrafficPolicy external_policy = TrafficPolicy::kCluster;  // Local only where that counts (S-10).
  // Sources that may use the load balancer IPs, both families. No block of a family: everybody in
  // that family. Without blocks of length 0, which also mean everybody (S-11, S-12).
  std::vector<IpPrefix> source_ranges;
  uint32_t affinity_seconds = 0;        // Session affinity by client address (S-14); 0: none.
  uint16_t health_check_node_port = 0;  // Only where it counts (S-13); 0: none.
  std::string message;                  // The object as it was sent, serialized; for List.
};

// At least one of its addresses in `family` can be reached from outside with this port (S-9).
bool ExternallyAccessible(const Service& service, Family family, const ServicePort& port);

// S-24: absent conditions are already replaced by their defaults.
struct EndpointConditions {
  bool ready : 1 = true;
  bool serving : 1 = true;
  bool terminating : 1 = false;

  friend bool operator==(const EndpointConditions&, const EndpointConditions&) = default;
};

// Whom endpoints should serve (S-25).
struct EndpointHints {
  std::vector<std::string> zones;  // Empty: no zone hint.
  std::vector<std::string> nodes;  // Empty: no node hint.

  friend bool operator==(const EndpointHints&, const EndpointHints&) = default;
};

inline constexpr uint16_t kMaxWeight = 1000;

struct Endpoint {
  IpAddress address;  // The first of addresses[] (S-22).
  EndpointConditions conditions;
  bool local = false;  // nodeName is this node (S-23).
  uint16_t hints = 0;  // Position in EndpointSlice::hints + 1; 0: none.
  // Of new connections, relative to the others it competes with. 0: none, it is drained.
  uint16_t weight = 1;
};
static_assert(sizeof(Endpoint) == 24);  // There are millions.

struct EndpointPort {
  std::string name;
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;  // 1..65535
};

struct EndpointSlice {
  std::string key;          // "namespace/name"
  std::string service_key;  // "namespace/name" of its Service (S-18); empty: belongs to none.
  Family family = Family::kIpv4;
  std::vector<EndpointPort> ports;   // Only those with name and number (S-20).
  std::vector<Endpoint> endpoints;   // All of `family`.
  std::vector<EndpointHints> hints;  // Of the endpoints, each once.
  std::string message;               // The object as it was sent, serialized; for List.
};

struct Node {
  std::string name;
  // InternalIPs in order, then ExternalIPs in order (S-109).
  std::vector<IpAddress> addresses;
  std::string zone;                     // Label topology.kubernetes.io/zone (S-29); empty: unknown.
  std::optional<IpPrefix> pod_cidr[2];  // By Index(Family): the first one of each (S-65).
  // Load balancers may send traffic here: the node is neither being deleted nor marked as about to
  // be (S-253).
  bool eligible = true;
  std::string message;
};

struct ServiceCidr {
  std::string name;
  std::vector<IpPrefix> cidrs;
  std::string message;
};

// One change of one object: an upsert when the pointer of its kind is set, a removal otherwise.
struct Change {
  Kind kind = Kind::kService;
  std::string key;  // "namespace/name", or "name" for Node and ServiceCIDR.
  std::shared_ptr<const Service> service;
  std::shared_ptr<const EndpointSlice> slice;
  std::shared_ptr<const Node> node;
  std::shared_ptr<const ServiceCidr> service_cidr;
  // When what it tells of happened (S-346), where whoever sent it says.
  std::optional<std::chrono::system_clock::time_point> triggered;

  bool removal() const { return !service && !slice && !node && !service_cidr; }
};

// What we have to say about one object: why it was refused, or what of it is not programmed.
struct Finding {
  enum class Severity : uint8_t {
    kRefused,  // Nothing of the new object was taken; its last good state stays.
    kWarning,  // Taken, but not all of it takes effect.
    kNotHeld,  // Refused, and there is no last good state.
  };
  Severity severity = Severity::kRefused;
  Kind kind = Kind::kService;
  std::string key;
  std::string field;   // Path in the object, "spec.ports[1].port"; empty: the object as a whole.
  std::string value;   // What stood there, shortened to 64 bytes.
  std::string reason;  // "is not in 1..65535"

  bool refused() const { return severity != Severity::kWarning; }

  // "Service shop/web refused: spec.ports[1].port 70000 is not in 1..65535; its last good state
  // stays"
  std::string ToString() const;
};

}  // namespace svcmap::proxy
