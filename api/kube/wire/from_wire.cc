#include "api/kube/wire/from_wire.h"

#include <utility>

#include "api/kube/wire/item.h"

namespace svcmap::kube {
namespace {

void MoveTime(const wire::Time& from, google::protobuf::Timestamp& to) {
  to.set_seconds(from.seconds());
}

using WireEntries = google::protobuf::RepeatedPtrField<wire::Entry>;
using StringMap = google::protobuf::Map<std::string, std::string>;

// Of a key that stands twice the last counts, as in every map.
void MoveEntries(Resource resource, bool (*keeps)(Resource, std::string_view), WireEntries& from,
                 StringMap& to) {
  for (wire::Entry& entry : from) {
    if (!keeps(resource, entry.key()) || !IsUtf8(entry.value())) continue;
    to[entry.key()] = std::move(*entry.mutable_value());
  }
}

void MoveServicePort(wire::ServicePort& from, v1::ServicePort& to) {
  to.set_name(std::move(*from.mutable_name()));
  to.set_protocol(std::move(*from.mutable_protocol()));
  to.set_port(from.port());
  to.set_node_port(from.node_port());
}

void MoveServiceSpec(wire::ServiceSpec& from, v1::ServiceSpec& to) {
  for (wire::ServicePort& port : *from.mutable_ports()) MoveServicePort(port, *to.add_ports());
  to.set_type(std::move(*from.mutable_type()));
  to.set_cluster_ip(std::move(*from.mutable_cluster_ip()));
  to.mutable_cluster_ips()->Swap(from.mutable_cluster_ips());
  to.mutable_ip_families()->Swap(from.mutable_ip_families());
  to.mutable_external_ips()->Swap(from.mutable_external_ips());
  to.mutable_load_balancer_source_ranges()->Swap(from.mutable_load_balancer_source_ranges());
  to.set_external_traffic_policy(std::move(*from.mutable_external_traffic_policy()));
  if (from.has_internal_traffic_policy()) {
    to.set_internal_traffic_policy(std::move(*from.mutable_internal_traffic_policy()));
  }
  to.set_session_affinity(std::move(*from.mutable_session_affinity()));
  if (from.has_session_affinity_config()) {
    v1::SessionAffinityConfig& config = *to.mutable_session_affinity_config();
    if (from.session_affinity_config().has_client_ip()) {
      const wire::ClientIPConfig& client_ip = from.session_affinity_config().client_ip();
      v1::ClientIPConfig& made = *config.mutable_client_ip();
      if (client_ip.has_timeout_seconds()) made.set_timeout_seconds(client_ip.timeout_seconds());
    }
  }
  to.set_health_check_node_port(from.health_check_node_port());
}

void MoveIngress(wire::LoadBalancerIngress& from, v1::LoadBalancerIngress& to) {
  to.set_ip(std::move(*from.mutable_ip()));
  to.set_hostname(std::move(*from.mutable_hostname()));
  if (from.has_ip_mode()) to.set_ip_mode(std::move(*from.mutable_ip_mode()));
}

void MoveConditions(const wire::EndpointConditions& from, v1::EndpointConditions& to) {
  if (from.has_ready()) to.set_ready(from.ready());
  if (from.has_serving()) to.set_serving(from.serving());
  if (from.has_terminating()) to.set_terminating(from.terminating());
}

void MoveHints(wire::EndpointHints& from, v1::EndpointHints& to) {
  for (wire::ForZone& zone : *from.mutable_for_zones()) {
    to.add_for_zones()->set_name(std::move(*zone.mutable_name()));
  }
  for (wire::ForNode& node : *from.mutable_for_nodes()) {
    to.add_for_nodes()->set_name(std::move(*node.mutable_name()));
  }
}

void MoveEndpoint(wire::Endpoint& from, v1::Endpoint& to) {
  to.mutable_addresses()->Swap(from.mutable_addresses());
  if (from.has_conditions()) MoveConditions(from.conditions(), *to.mutable_conditions());
  if (from.has_node_name()) to.set_node_name(std::move(*from.mutable_node_name()));
  if (from.has_zone() && IsUtf8(from.zone())) to.set_zone(std::move(*from.mutable_zone()));
  if (from.has_hints()) MoveHints(*from.mutable_hints(), *to.mutable_hints());
}

void MoveEndpointPort(wire::EndpointPort& from, v1::EndpointPort& to) {
  if (from.has_name()) to.set_name(std::move(*from.mutable_name()));
  if (from.has_protocol()) to.set_protocol(std::move(*from.mutable_protocol()));
  if (from.has_port()) to.set_port(from.port());
}

}  // namespace

void MoveMetadata(Resource resource, wire::ObjectMeta& from, v1::ObjectMeta& to) {
  to.set_name(std::move(*from.mutable_name()));
  if (!from.namespace_().empty()) to.set_namespace_(std::move(*from.mutable_namespace_()));
  MoveEntries(resource, KeepsLabel, *from.mutable_labels(), *to.mutable_labels());
  MoveEntries(resource, KeepsAnnotation, *from.mutable_annotations(), *to.mutable_annotations());
  if (from.creation_timestamp().has_seconds()) {
    MoveTime(from.creation_timestamp(), *to.mutable_creation_timestamp());
  }
  if (from.deletion_timestamp().has_seconds()) {
    MoveTime(from.deletion_timestamp(), *to.mutable_deletion_timestamp());
  }
}

void MoveObject(wire::Service& from, v1::Service& to) {
  MoveMetadata(Resource::kServices, *from.mutable_metadata(), *to.mutable_metadata());
  if (from.has_spec()) MoveServiceSpec(*from.mutable_spec(), *to.mutable_spec());
  if (!from.has_status()) return;
  v1::ServiceStatus& status = *to.mutable_status();
  if (!from.status().has_load_balancer()) return;
  v1::LoadBalancerStatus& load_balancer = *status.mutable_load_balancer();
  for (wire::LoadBalancerIngress& ingress :
       *from.mutable_status()->mutable_load_balancer()->mutable_ingress()) {
    MoveIngress(ingress, *load_balancer.add_ingress());
  }
}

void MoveObject(wire::EndpointSlice& from, v1::EndpointSlice& to) {
  MoveMetadata(Resource::kEndpointSlices, *from.mutable_metadata(), *to.mutable_metadata());
  to.set_address_type(std::move(*from.mutable_address_type()));
  to.mutable_endpoints()->Reserve(from.endpoints_size());
  for (wire::Endpoint& endpoint : *from.mutable_endpoints()) {
    MoveEndpoint(endpoint, *to.add_endpoints());
  }
  for (wire::EndpointPort& port : *from.mutable_ports()) MoveEndpointPort(port, *to.add_ports());
}

void MoveObject(wire::Node& from, v1::Node& to) {
  MoveMetadata(Resource::kNode, *from.mutable_metadata(), *to.mutable_metadata());
  if (from.has_spec()) {
    to.mutable_spec()->mutable_pod_cidrs()->Swap(from.mutable_spec()->mutable_pod_cidrs());
    for (wire::Taint& taint : *from.mutable_spec()->mutable_taints()) {
      v1::Taint& made = *to.mutable_spec()->add_taints();
      made.set_key(std::move(*taint.mutable_key()));
      made.set_value(std::move(*taint.mutable_value()));
      made.set_effect(std::move(*taint.mutable_effect()));
    }
  }
  if (from.has_status()) {
    v1::NodeStatus& status = *to.mutable_status();
    for (wire::NodeAddress& address : *from.mutable_status()->mutable_addresses()) {
      v1::NodeAddress& made = *status.add_addresses();
      made.set_type(std::move(*address.mutable_type()));
      made.set_address(std::move(*address.mutable_address()));
    }
  }
}

void MoveObject(wire::ServiceCIDR& from, v1::ServiceCIDR& to) {
  MoveMetadata(Resource::kServiceCidrs, *from.mutable_metadata(), *to.mutable_metadata());
  if (from.has_spec()) {
    to.mutable_spec()->mutable_cidrs()->Swap(from.mutable_spec()->mutable_cidrs());
  }
}

}  // namespace svcmap::kube
