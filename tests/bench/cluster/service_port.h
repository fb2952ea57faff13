// One port of one Service with its endpoints, independent of the input format of a proxy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/resolve/endpoints.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::bench {

// The node of the proxies. Endpoints are distributed over this node and 49 others.
inline constexpr char kThisNode[] = "node-0";

struct BenchEndpoint {
  proxy::EndpointAddress address;
  int node = 0;  // The endpoint is on "node-N". 0 is this node.
};

struct ServicePort {
  std::string name_space;
  std::string service;
  std::string port_name;  // May be empty.
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  IpAddress cluster_ip;
  uint16_t port = 0;
  uint16_t node_port = 0;               // 0 if the port has no nodePort.
  uint16_t health_check_node_port = 0;  // 0 if the Service has no health check.
  std::vector<IpAddress> external_ips;
  std::vector<IpAddress> load_balancer_ips;
  // Applies to the load balancer IPs. Empty permits all clients.
  std::vector<IpPrefix> source_ranges;
  bool external_local = false;           // True for externalTrafficPolicy Local.
  int affinity_seconds = 0;              // 0 disables session affinity.
  std::vector<BenchEndpoint> endpoints;  // All endpoints are ready.

  std::string Key() const { return name_space + "/" + service; }
  // Returns "namespace/name:port", or "namespace/name" without a port name, as in kube-proxy.
  std::string Text() const { return port_name.empty() ? Key() : Key() + ":" + port_name; }
  Family family() const { return cluster_ip.family(); }
};

// Returns a Service with only this port, and its slices of at most 1,000 endpoints.
v1::Service ServiceMessage(const ServicePort& port);
std::vector<v1::EndpointSlice> SliceMessages(const ServicePort& port);
v1::EndpointSlice SliceMessage(const ServicePort& port, int index);
int SliceCount(const ServicePort& port);  // Returns at least 1.
int SliceOf(size_t endpoint);             // Returns the slice of the endpoint at this position.

}  // namespace svcmap::bench
