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
  int node = 0;  // The endpoint is on node "node-N". 0 is the node of the proxies.
};

struct ServicePort {
  std::string name_space;
  std::string service;
  std::string port_name;  // Name of the port. May be empty.
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  IpAddress cluster_ip;
  uint16_t port = 0;
  uint16_t node_port = 0;  // nodePort of the port, or 0 if there is none.
  // healthCheckNodePort of the Service, or 0 if there is none.
  uint16_t health_check_node_port = 0;
  std::vector<IpAddress> external_ips;
  std::vector<IpAddress> load_balancer_ips;
  // Sources that may connect to the load balancer IPs. If empty, all clients may connect.
  std::vector<IpPrefix> source_ranges;
  bool external_local = false;  // True for externalTrafficPolicy Local.
  int affinity_seconds = 0;  // Timeout of session affinity in seconds. 0 disables session affinity.
  std::vector<BenchEndpoint> endpoints;  // Endpoints of the port. All endpoints are ready.

  std::string Key() const { return name_space + "/" + service; }
  // Returns "namespace/name:port", or "namespace/name" without a port name, as in kube-proxy.
  std::string Text() const { return port_name.empty() ? Key() : Key() + ":" + port_name; }
  Family family() const { return cluster_ip.family(); }
};

// Returns a Service with only this port, and its slices of at most 1,000 endpoints.
v1::Service ServiceMessage(const ServicePort& port);
std::vector<v1::EndpointSlice> SliceMessages(const ServicePort& port);
v1::EndpointSlice SliceMessage(const ServicePort& port, int index);
int SliceCount(const ServicePort& port);  // Returns the number of slices, which is at least 1.
int SliceOf(size_t endpoint);  // Returns the number of the slice that contains this endpoint.

}  // namespace svcmap::bench
