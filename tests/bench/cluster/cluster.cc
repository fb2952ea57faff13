#include "tests/bench/cluster/cluster.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace svcmap::bench {
namespace {

constexpr uint32_t kServiceBase = 0x0a600001;   // First Service address, 10.96.0.1.
constexpr uint32_t kEndpointBase = 0x0b000001;  // First endpoint address, 11.0.0.1.
// First address for replacement endpoints, 64.0.0.1.
constexpr uint32_t kReplacedBase = 0x40000001;
constexpr uint32_t kExternalBase = 0x50000001;      // First external IP, 80.0.0.1.
constexpr uint32_t kLoadBalancerBase = 0x60000001;  // First load balancer IP, 96.0.0.1.
constexpr uint32_t kSourceBase = 0x70000001;        // First source range, 112.0.0.1.
constexpr uint16_t kFirstNodePort = 10000;
constexpr int kNodePorts = 50000;
constexpr int kPeriod = 10;  // In a mixed cluster, the features repeat every ten Services.
constexpr int kNodes = 50;
constexpr int kAffinitySeconds = 10800;  // Kubernetes' default session affinity timeout (3 hours).
constexpr uint16_t kServicePort = 80;
constexpr uint16_t kEndpointPort = 8080;

IpAddress Address(uint32_t number) { return IpAddress::V4({htonl(number)}); }

IpPrefix HostRange(uint32_t number) { return {Address(number), 32}; }

void AddExternal(int number, ServicePort& port) {
  port.node_port = static_cast<uint16_t>(kFirstNodePort + number % kNodePorts);
  port.load_balancer_ips = {Address(kLoadBalancerBase + static_cast<uint32_t>(number))};
}

void AddEverything(int number, ServicePort& port) {
  AddExternal(number, port);
  port.external_local = true;
  // A healthCheckNodePort belongs to one Service.
  if (number == 0) port.health_check_node_port = kFirstNodePort - 1;
  port.affinity_seconds = kAffinitySeconds;
  port.external_ips = {Address(kExternalBase + static_cast<uint32_t>(number))};
  if (number % kPeriod == 0) {
    port.source_ranges = {HostRange(kSourceBase), HostRange(kSourceBase + 0x1000000)};
  }
}

BenchEndpoint MakeEndpoint(uint32_t address, size_t index) {
  return {.address = {Address(address), kEndpointPort}, .node = static_cast<int>(index % kNodes)};
}

ServicePort MakeServicePort(const ClusterShape& shape, int number, int endpoints) {
  ServicePort port;
  port.name_space = "namespace-" + std::to_string(number % 100);
  port.service = "service-" + std::to_string(number);
  port.port_name = "http";
  port.protocol = shape.protocol;
  port.cluster_ip = Address(kServiceBase + static_cast<uint32_t>(number));
  port.port = kServicePort;
  const int stride = std::max({shape.endpoints, endpoints, 16});
  for (int i = 0; i < endpoints; ++i) {
    port.endpoints.push_back(MakeEndpoint(
        kEndpointBase + static_cast<uint32_t>(number * stride + i), static_cast<size_t>(i)));
  }
  return port;
}

void AddMix(const ClusterShape& shape, int number, ServicePort& port) {
  if (shape.mix == Mix::kEverything) AddEverything(number, port);
  if (shape.mix != Mix::kMixed) return;
  switch (number % kPeriod) {
    case 1:
      AddExternal(number, port);
      break;
    case 2:
      port.node_port = static_cast<uint16_t>(kFirstNodePort + number % kNodePorts);
      break;
    case 3:
      port.affinity_seconds = kAffinitySeconds;
      break;
    default:
      break;
  }
}

constexpr int kMaxSlice = 1000;

}  // namespace

absl::StatusOr<ClusterShape> ParseShape(const std::string& text) {
  ClusterShape shape;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%dx%d%c", &shape.services, &shape.endpoints, &rest) != 2 ||
      shape.services < 1 || shape.endpoints < 1) {
    return absl::InvalidArgumentError("\"" + text + "\" is not SERVICESxENDPOINTS, like 1000x10");
  }
  return shape;
}

std::string ShapeText(const ClusterShape& shape) {
  const char* mix = shape.mix == Mix::kMixed        ? "-mixed"
                    : shape.mix == Mix::kEverything ? "-everything"
                                                    : "";
  return absl::StrCat(shape.services, "x", shape.endpoints, mix);
}

Cluster::Cluster(const ClusterShape& shape, int first) : shape_(shape), next_service_(first) {
  ports_.reserve(static_cast<size_t>(shape.services));
  for (; next_service_ < first + shape.services; ++next_service_) {
    AddMix(shape, next_service_,
           ports_.emplace_back(MakeServicePort(shape, next_service_, shape.endpoints)));
  }
}

size_t Cluster::endpoint_count() const {
  size_t count = 0;
  for (const ServicePort& port : ports_) count += port.endpoints.size();
  return count;
}

ClusterChange Cluster::ChangedSlices(size_t position, ServicePort before, int first, int last) {
  ClusterChange change{.before = std::move(before), .after = ports_[position]};
  for (int slice = first; slice <= last; ++slice) {
    *change.messages.emplace_back().mutable_endpoint_slice() = SliceMessage(*change.after, slice);
  }
  return change;
}

ClusterChange Cluster::ReplaceEndpoint(size_t position) { return ReplaceEndpoints(position, 0, 1); }

ClusterChange Cluster::ReplaceEndpoints(size_t position, size_t first, size_t count) {
  ServicePort before = ports_[position];
  for (size_t i = first; i < first + count; ++i) {
    ports_[position].endpoints[i] = MakeEndpoint(kReplacedBase + ++replaced_, i);
  }
  return ChangedSlices(position, std::move(before), SliceOf(first), SliceOf(first + count - 1));
}

ClusterChange Cluster::AddEndpoint(size_t position) {
  ServicePort before = ports_[position];
  std::vector<BenchEndpoint>& endpoints = ports_[position].endpoints;
  endpoints.push_back(MakeEndpoint(kReplacedBase + ++replaced_, endpoints.size()));
  const int slice = SliceOf(endpoints.size() - 1);
  return ChangedSlices(position, std::move(before), slice, slice);
}

ClusterChange Cluster::RemoveEndpoint(size_t position) {
  ServicePort before = ports_[position];
  const int slice = SliceOf(before.endpoints.size() - 1);
  ports_[position].endpoints.pop_back();
  return ChangedSlices(position, std::move(before), slice, slice);
}

ClusterChange Cluster::AddService(int endpoints) {
  ServicePort& port = ports_.emplace_back(MakeServicePort(shape_, next_service_++, 0));
  for (int i = 0; i < endpoints; ++i) {
    port.endpoints.push_back(MakeEndpoint(kReplacedBase + ++replaced_, static_cast<size_t>(i)));
  }
  return {.after = port, .messages = UpsertMessages(port)};
}

ClusterChange Cluster::RemoveLastService() {
  ClusterChange change{.before = std::move(ports_.back())};
  ports_.pop_back();
  change.messages = RemovalMessages(*change.before);
  return change;
}

std::vector<v1::Change> UpsertMessages(const ServicePort& port) {
  std::vector<v1::Change> messages(1);
  *messages.back().mutable_service() = ServiceMessage(port);
  for (v1::EndpointSlice& slice : SliceMessages(port)) {
    *messages.emplace_back().mutable_endpoint_slice() = std::move(slice);
  }
  return messages;
}

std::vector<v1::Change> RemovalMessages(const ServicePort& port) {
  std::vector<v1::Change> messages;
  const auto remove = [&](v1::Kind kind, std::string name) {
    v1::ObjectRef& ref = *messages.emplace_back().mutable_remove();
    ref.set_kind(kind);
    ref.set_namespace_(port.name_space);
    ref.set_name(std::move(name));
  };
  for (int i = 0; i < SliceCount(port); ++i) {
    remove(v1::KIND_ENDPOINT_SLICE, port.service + "-" + std::to_string(i));
  }
  remove(v1::KIND_SERVICE, port.service);
  return messages;
}

std::vector<v1::Change> AllMessages(const Cluster& cluster) {
  std::vector<v1::Change> messages;
  for (const ServicePort& port : cluster.ports()) {
    for (v1::Change& message : UpsertMessages(port)) messages.push_back(std::move(message));
  }
  return messages;
}

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
