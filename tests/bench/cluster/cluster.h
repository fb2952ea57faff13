// Generates a cluster of any size and changes to the cluster. Equal parameters produce equal
// clusters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/resolve/endpoints.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::bench {

// Name of the node on which the proxies run. Endpoints are distributed over this node and 49 other
// nodes.
inline constexpr char kThisNode[] = "node-0";

struct BenchEndpoint {
  proxy::EndpointAddress address;
  int node = 0;  // Number N of the endpoint's node, "node-N". The proxies run on node 0.
};

// One port of one Service with its endpoints, independent of any proxy's input format.
struct ServicePort {
  std::string name_space;
  std::string service;
  std::string port_name;  // Name of the port. May be empty.
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  IpAddress cluster_ip;
  uint16_t port = 0;
  uint16_t node_port = 0;  // nodePort of the Service port. 0 means that the port has no nodePort.
  // healthCheckNodePort of the Service. 0 means that the Service has no health check port.
  uint16_t health_check_node_port = 0;
  std::vector<IpAddress> external_ips;
  std::vector<IpAddress> load_balancer_ips;
  // Sources that may connect to the load balancer IPs. An empty list permits all clients.
  std::vector<IpPrefix> source_ranges;
  bool external_local = false;  // True if externalTrafficPolicy is Local.
  int affinity_seconds = 0;     // Session affinity timeout in seconds. 0 disables session affinity.
  std::vector<BenchEndpoint> endpoints;  // Endpoints of the port. All endpoints are ready.

  std::string Key() const { return name_space + "/" + service; }
  // Returns "namespace/name:port", or "namespace/name" if the port has no name, as kube-proxy does.
  std::string Text() const { return port_name.empty() ? Key() : Key() + ":" + port_name; }
  Family family() const { return cluster_ip.family(); }
};

// ServiceMessage returns a Service that has only this port. SliceMessages returns the port's
// EndpointSlices, with at most 1,000 endpoints each.
v1::Service ServiceMessage(const ServicePort& port);
std::vector<v1::EndpointSlice> SliceMessages(const ServicePort& port);
v1::EndpointSlice SliceMessage(const ServicePort& port, int index);
// Returns the number of EndpointSlices, which is at least 1.
int SliceCount(const ServicePort& port);
int SliceOf(size_t endpoint);  // Returns the index of the EndpointSlice that contains the endpoint.

enum class Mix {
  kClusterIp,  // All Services are ClusterIP Services without other features.
  // Of every ten Services, one has a nodePort, one has a nodePort and a load balancer IP, and one
  // has session affinity.
  kMixed,
  // All Services have an external IP, a load balancer IP, a nodePort, externalTrafficPolicy Local
  // and session affinity. Every tenth Service has load balancer source ranges. The first Service
  // has a healthCheckNodePort.
  kEverything,
};

struct ClusterShape {
  int services = 1000;
  int endpoints = 10;  // Number of endpoints per Service.
  Mix mix = Mix::kClusterIp;
  proxy::Protocol protocol = proxy::Protocol::kTcp;
};

// Parses a cluster shape such as "10000x10".
absl::StatusOr<ClusterShape> ParseShape(const std::string& text);
// Returns the shape as text, for example "10000x10-mixed". The text omits the default mix.
std::string ShapeText(const ClusterShape& shape);

// One change to a Service port. `before` is absent if the change adds the port, and `after` is
// absent if the change deletes the port.
struct ClusterChange {
  std::optional<ServicePort> before, after;
  std::vector<v1::Change> messages;  // Messages that a controller would send for this change.
};

class Cluster {
 public:
  // `first` is the number of the first Service. The number of a Service determines its name and
  // addresses.
  explicit Cluster(const ClusterShape& shape, int first = 0);
  // Creates a cluster with these Service ports and without a shape.
  explicit Cluster(std::vector<ServicePort> ports) : ports_(std::move(ports)) {}

  const ClusterShape& shape() const { return shape_; }
  // Returns the current Service ports, in the order in which a list-based proxy searches its rules.
  const std::vector<ServicePort>& ports() const { return ports_; }
  size_t endpoint_count() const;

  // Replaces the first endpoint of a Service port with an endpoint that has an unused address.
  // `position` is an index in ports().
  ClusterChange ReplaceEndpoint(size_t position);
  // Replaces `count` endpoints in one change, starting at index `first`, like one step of a rolling
  // update.
  ClusterChange ReplaceEndpoints(size_t position, size_t first, size_t count);
  ClusterChange AddEndpoint(size_t position);
  // Removes an endpoint. The Service must have at least one endpoint.
  ClusterChange RemoveEndpoint(size_t position);
  // Appends a ClusterIP Service.
  ClusterChange AddService(int endpoints);
  ClusterChange RemoveLastService();

 private:
  ClusterChange ChangedSlices(size_t position, ServicePort before, int first, int last);

  ClusterShape shape_;
  std::vector<ServicePort> ports_;
  uint32_t replaced_ = 0;  // Number of replacement addresses allocated so far.
  int next_service_ = 0;
};

// Returns prefixes that contain the endpoints of all generated clusters. A network namespace with
// these prefixes can simulate all pods.
inline constexpr const char* kEndpointPrefixes[] = {"11.0.0.0/8", "64.0.0.0/8"};

// Return the messages that upsert or delete the Service of the port and its EndpointSlices.
std::vector<v1::Change> UpsertMessages(const ServicePort& port);
std::vector<v1::Change> RemovalMessages(const ServicePort& port);

// Returns one change for each object in the cluster.
std::vector<v1::Change> AllMessages(const Cluster& cluster);

}  // namespace svcmap::bench
