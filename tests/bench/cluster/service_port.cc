#include "tests/bench/cluster/service_port.h"

#include <algorithm>

namespace svcmap::bench {
namespace {

constexpr int kMaxSlice = 1000;

}  // namespace

v1::Service ServiceMessage(const ServicePort& port) {
  v1::Service message;
  message.mutable_metadata()->set_name(port.service);
  message.mutable_metadata()->set_namespace_(port.name_space);
  v1::ServiceSpec& spec = *message.mutable_spec();
  spec.set_type(!port.load_balancer_ips.empty() ? "LoadBalancer"
                : port.node_port != 0           ? "NodePort"
                                                : "ClusterIP");
  spec.set_cluster_ip(port.cluster_ip.ToString());
  for (const IpAddress& ip : port.external_ips) spec.add_external_ips(ip.ToString());
  for (const IpPrefix& range : port.source_ranges) {
    spec.add_load_balancer_source_ranges(range.ToString());
  }
  if (port.external_local) spec.set_external_traffic_policy("Local");
  spec.set_health_check_node_port(port.health_check_node_port);
  if (port.affinity_seconds != 0) {
    spec.set_session_affinity("ClientIP");
    spec.mutable_session_affinity_config()->mutable_client_ip()->set_timeout_seconds(
        port.affinity_seconds);
  }
  v1::ServicePort& service_port = *spec.add_ports();
  service_port.set_name(port.port_name);
  service_port.set_protocol(std::string(proxy::ProtocolName(port.protocol)));
  service_port.set_port(port.port);
  service_port.set_node_port(port.node_port);
  for (const IpAddress& ip : port.load_balancer_ips) {
    message.mutable_status()->mutable_load_balancer()->add_ingress()->set_ip(ip.ToString());
  }
  return message;
}

int SliceCount(const ServicePort& port) {
  return std::max(1, (static_cast<int>(port.endpoints.size()) + kMaxSlice - 1) / kMaxSlice);
}

int SliceOf(size_t endpoint) { return static_cast<int>(endpoint) / kMaxSlice; }

v1::EndpointSlice SliceMessage(const ServicePort& port, int index) {
  v1::EndpointSlice slice;
  slice.mutable_metadata()->set_name(port.service + "-" + std::to_string(index));
  slice.mutable_metadata()->set_namespace_(port.name_space);
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = port.service;
  slice.set_address_type(std::string(FamilyName(port.family())));
  const size_t first = static_cast<size_t>(index) * kMaxSlice;
  const size_t last = std::min(port.endpoints.size(), first + kMaxSlice);
  if (first < last) {  // A port without a number would be reported as an error.
    v1::EndpointPort& slice_port = *slice.add_ports();
    slice_port.set_name(port.port_name);
    slice_port.set_protocol(std::string(proxy::ProtocolName(port.protocol)));
    slice_port.set_port(port.endpoints[first].address.port);
  }
  for (size_t i = first; i < last; ++i) {
    v1::Endpoint& endpoint = *slice.add_endpoints();
    endpoint.add_addresses(port.endpoints[i].address.ip.ToString());
    endpoint.set_node_name("node-" + std::to_string(port.endpoints[i].node));
    endpoint.mutable_conditions()->set_ready(true);
  }
  return slice;
}

std::vector<v1::EndpointSlice> SliceMessages(const ServicePort& port) {
  std::vector<v1::EndpointSlice> slices;
  for (int i = 0; i < SliceCount(port); ++i) slices.push_back(SliceMessage(port, i));
  return slices;
}

}  // namespace svcmap::bench
