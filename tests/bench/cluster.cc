#include "tests/bench/cluster.h"

#include <arpa/inet.h>

#include <algorithm>

namespace svcmap::bench {
namespace {

constexpr int kMaxSlice = 1000;
constexpr uint32_t kServiceBase = 0x0a600001;       // 10.96.0.1
constexpr uint32_t kEndpointBase = 0x0b000001;      // 11.0.0.1
constexpr uint32_t kReplacedBase = 0x40000001;      // 64.0.0.1
constexpr uint32_t kExternalBase = 0x50000001;      // 80.0.0.1
constexpr uint32_t kLoadBalancerBase = 0x60000001;  // 96.0.0.1
constexpr uint32_t kSourceBase = 0x70000001;        // 112.0.0.1
constexpr int kFirstNodePort = 10000;
constexpr int kNodePorts = 50000;
constexpr int kRestricted = 10;  // Every tenth Service has source ranges.

std::string Address(Family family, uint32_t number) {
  char text[INET6_ADDRSTRLEN];
  if (family == Family::kIpv4) {
    const in_addr address = {htonl(number)};
    inet_ntop(AF_INET, &address, text, sizeof(text));
  } else {
    in6_addr address = {};
    address.s6_addr[0] = 0xfd;
    const uint32_t big_endian = htonl(number);
    std::copy_n(reinterpret_cast<const uint8_t*>(&big_endian), 4, address.s6_addr + 12);
    inet_ntop(AF_INET6, &address, text, sizeof(text));
  }
  return text;
}

std::string ServiceName(int service) { return "service-" + std::to_string(service); }
std::string Namespace(int service) { return "namespace-" + std::to_string(service % 100); }

// Of LoadBalancer Services with everything a Service can have.
void AddFeatures(const ClusterShape& shape, int service, uint32_t changed, v1::Service& message) {
  const auto number = static_cast<uint32_t>(service);
  const std::string host = shape.family == Family::kIpv4 ? "/32" : "/128";
  v1::ServiceSpec& spec = *message.mutable_spec();
  spec.set_type("LoadBalancer");
  spec.set_external_traffic_policy("Local");
  spec.set_health_check_node_port(kFirstNodePort - 1);
  spec.set_session_affinity("ClientIP");
  spec.add_external_ips(Address(shape.family, kExternalBase + number));
  if (service % kRestricted == 0) {
    spec.add_load_balancer_source_ranges(Address(shape.family, kSourceBase + changed) + host);
    spec.add_load_balancer_source_ranges(Address(shape.family, kSourceBase + 0x1000000) + host);
  }
  spec.mutable_ports(0)->set_node_port(kFirstNodePort + service % kNodePorts);
  message.mutable_status()->mutable_load_balancer()->add_ingress()->set_ip(
      Address(shape.family, kLoadBalancerBase + number));
}

}  // namespace

v1::Service MakeService(const ClusterShape& shape, int service, uint32_t changed) {
  v1::Service message;
  message.mutable_metadata()->set_name(ServiceName(service));
  message.mutable_metadata()->set_namespace_(Namespace(service));
  message.mutable_spec()->set_type("ClusterIP");
  message.mutable_spec()->set_cluster_ip(
      Address(shape.family, kServiceBase + static_cast<uint32_t>(service)));
  v1::ServicePort* port = message.mutable_spec()->add_ports();
  port->set_name("http");
  port->set_protocol("TCP");
  port->set_port(80);
  if (shape.all_features) AddFeatures(shape, service, changed, message);
  return message;
}

int SliceCount(int endpoints) { return std::max(1, (endpoints + kMaxSlice - 1) / kMaxSlice); }

v1::EndpointSlice MakeSlice(const ClusterShape& shape, int service, int index, int endpoints,
                            uint32_t replaced) {
  v1::EndpointSlice slice;
  slice.mutable_metadata()->set_name(ServiceName(service) + "-" + std::to_string(index));
  slice.mutable_metadata()->set_namespace_(Namespace(service));
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] =
      ServiceName(service);
  slice.set_address_type(std::string(FamilyName(shape.family)));
  v1::EndpointPort* port = slice.add_ports();
  port->set_name("http");
  port->set_port(8080);
  const int first = index * kMaxSlice;
  const int last = std::min(endpoints, first + kMaxSlice);
  for (int i = first; i < last; ++i) {
    const auto number = static_cast<uint32_t>(service * std::max(shape.endpoints, 16) + i);
    const bool other = i == first && replaced > 0;
    v1::Endpoint* endpoint = slice.add_endpoints();
    endpoint->add_addresses(
        Address(shape.family, other ? kReplacedBase + replaced : kEndpointBase + number));
    endpoint->set_node_name("node-" + std::to_string(i % 50));
    endpoint->mutable_conditions()->set_ready(true);
  }
  return slice;
}

}  // namespace svcmap::bench
