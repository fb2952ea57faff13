// One port of one Service with its endpoints, independent of any proxy's input format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace svcmap::bench
