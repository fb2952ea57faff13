#include "tests/support/builders.h"

namespace svcmap::testing {
namespace {

bool IsV6(const std::string& ip) { return ip.find(':') != std::string::npos; }

// Splits a name such as "shop/web" into namespace and name.
std::pair<std::string, std::string> Split(const std::string& key) {
  const size_t slash = key.find('/');
  return {key.substr(0, slash), key.substr(slash + 1)};
}

v1::ObjectRef Ref(v1::Kind kind, const std::string& space, const std::string& name) {
  v1::ObjectRef ref;
  ref.set_kind(kind);
  ref.set_namespace_(space);
  ref.set_name(name);
  return ref;
}

}  // namespace

const char* ApiName(Protocol protocol) {
  constexpr const char* kNames[] = {"TCP", "UDP", "SCTP"};
  return kNames[static_cast<size_t>(protocol)];
}

AService::AService(const std::string& namespace_and_name) {
  const auto [space, name] = Split(namespace_and_name);
  service_.mutable_metadata()->set_namespace_(space);
  service_.mutable_metadata()->set_name(name);
  service_.mutable_spec()->set_type("ClusterIP");
}

AService& AService::ClusterIp(const std::string& ip) {
  v1::ServiceSpec& spec = *service_.mutable_spec();
  spec.set_cluster_ip(ip);
  spec.add_cluster_ips(ip);
  spec.add_ip_families(IsV6(ip) ? "IPv6" : "IPv4");
  return *this;
}

AService& AService::ClusterIps(const std::string& first, const std::string& second) {
  ClusterIp(first);
  service_.mutable_spec()->add_cluster_ips(second);
  service_.mutable_spec()->add_ip_families(IsV6(second) ? "IPv6" : "IPv4");
  return *this;
}

AService& AService::Port(const std::string& name, int port, Protocol protocol) {
  v1::ServicePort& added = *service_.mutable_spec()->add_ports();
  added.set_name(name);
  added.set_port(port);
  added.set_protocol(ApiName(protocol));
  return *this;
}

AService& AService::NodePort(int port) {
  v1::ServiceSpec& spec = *service_.mutable_spec();
  if (spec.type() == "ClusterIP") spec.set_type("NodePort");
  spec.mutable_ports(spec.ports_size() - 1)->set_node_port(port);
  return *this;
}

AService& AService::ExternalIp(const std::string& ip) {
  service_.mutable_spec()->add_external_ips(ip);
  return *this;
}

AService& AService::LoadBalancerIp(const std::string& ip) {
  service_.mutable_spec()->set_type("LoadBalancer");
  service_.mutable_status()->mutable_load_balancer()->add_ingress()->set_ip(ip);
  return *this;
}

AService& AService::LoadBalancerIpWithMode(const std::string& ip, const std::string& mode) {
  LoadBalancerIp(ip);
  v1::LoadBalancerStatus& status = *service_.mutable_status()->mutable_load_balancer();
  status.mutable_ingress(status.ingress_size() - 1)->set_ip_mode(mode);
  return *this;
}

AService& AService::Type(const std::string& type) {
  service_.mutable_spec()->set_type(type);
  return *this;
}

AService& AService::InternalPolicy(const std::string& policy) {
  service_.mutable_spec()->set_internal_traffic_policy(policy);
  return *this;
}

AService& AService::ExternalPolicy(const std::string& policy) {
  service_.mutable_spec()->set_external_traffic_policy(policy);
  return *this;
}

AService& AService::HealthCheckNodePort(int port) {
  service_.mutable_spec()->set_health_check_node_port(port);
  return *this;
}

AService& AService::SourceRange(const std::string& cidr) {
  service_.mutable_spec()->add_load_balancer_source_ranges(cidr);
  return *this;
}

AService& AService::ClientIpAffinity() {
  service_.mutable_spec()->set_session_affinity("ClientIP");
  return *this;
}

AService& AService::ClientIpAffinity(int timeout_seconds) {
  service_.mutable_spec()
      ->mutable_session_affinity_config()
      ->mutable_client_ip()
      ->set_timeout_seconds(timeout_seconds);
  return ClientIpAffinity();
}

AService& AService::EndpointPick(const std::string& pick, int table_size) {
  service_.mutable_spec()->set_endpoint_pick(pick);
  service_.mutable_spec()->set_pick_table_size(table_size);
  return *this;
}

AService& AService::CreatedAt(int64_t unix_seconds) {
  service_.mutable_metadata()->mutable_creation_timestamp()->set_seconds(unix_seconds);
  return *this;
}

AService& AService::Annotation(const std::string& name, const std::string& value) {
  (*service_.mutable_metadata()->mutable_annotations())[name] = value;
  return *this;
}

AService::operator v1::Object() const {
  v1::Object object;
  *object.mutable_service() = service_;
  return object;
}

ASlice::ASlice(const std::string& service) {
  const auto [space, name] = Split(service);
  slice_.mutable_metadata()->set_namespace_(space);
  slice_.mutable_metadata()->set_name(name + "-1");
  (*slice_.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = name;
  slice_.set_address_type("IPv4");
}

ASlice& ASlice::Named(const std::string& name) {
  slice_.mutable_metadata()->set_name(name);
  return *this;
}

ASlice& ASlice::Endpoint(const std::string& ip, const std::string& node) {
  slice_.set_address_type(IsV6(ip) ? "IPv6" : "IPv4");
  v1::Endpoint& added = *slice_.add_endpoints();
  added.add_addresses(ip);
  if (!node.empty()) added.set_node_name(node);
  return *this;
}

ASlice& ASlice::Port(const std::string& name, int port, Protocol protocol) {
  v1::EndpointPort& added = *slice_.add_ports();
  added.set_name(name);
  added.set_port(port);
  added.set_protocol(ApiName(protocol));
  return *this;
}

ASlice& ASlice::Weight(uint32_t weight) {
  last().set_weight(weight);
  return *this;
}

ASlice& ASlice::NotReady() {
  last().mutable_conditions()->set_ready(false);
  last().mutable_conditions()->set_serving(false);
  return *this;
}

ASlice& ASlice::Terminating(bool serving) {
  v1::EndpointConditions& conditions = *last().mutable_conditions();
  conditions.set_ready(false);
  conditions.set_serving(serving);
  conditions.set_terminating(true);
  return *this;
}

ASlice& ASlice::ZoneHint(const std::string& zone) {
  last().mutable_hints()->add_for_zones()->set_name(zone);
  return *this;
}

ASlice& ASlice::NodeHint(const std::string& node) {
  last().mutable_hints()->add_for_nodes()->set_name(node);
  return *this;
}

ASlice::operator v1::Object() const {
  v1::Object object;
  *object.mutable_endpoint_slice() = slice_;
  return object;
}

ADelta::ADelta(const std::string& slice) {
  const auto [space, name] = Split(slice);
  change_.mutable_endpoint_delta()->set_namespace_(space);
  change_.mutable_endpoint_delta()->set_name(name);
}

ADelta& ADelta::Remove(const std::string& ip) {
  change_.mutable_endpoint_delta()->add_remove(ip);
  return *this;
}

ADelta& ADelta::Put(const std::string& ip, const std::string& node) {
  v1::Endpoint& endpoint = *change_.mutable_endpoint_delta()->add_upsert();
  endpoint.add_addresses(ip);
  if (!node.empty()) endpoint.set_node_name(node);
  return *this;
}

ANode::ANode(const std::string& name) { node_.mutable_metadata()->set_name(name); }

ANode& ANode::InternalIp(const std::string& ip) {
  v1::NodeAddress& address = *node_.mutable_status()->add_addresses();
  address.set_type("InternalIP");
  address.set_address(ip);
  return *this;
}

ANode& ANode::Zone(const std::string& zone) {
  (*node_.mutable_metadata()->mutable_labels())["topology.kubernetes.io/zone"] = zone;
  return *this;
}

ANode& ANode::PodCidr(const std::string& cidr) {
  node_.mutable_spec()->add_pod_cidrs(cidr);
  return *this;
}

ANode& ANode::Taint(const std::string& key) {
  node_.mutable_spec()->add_taints()->set_key(key);
  return *this;
}

ANode& ANode::BeingDeleted() {
  node_.mutable_metadata()->mutable_deletion_timestamp()->set_seconds(1);
  return *this;
}

ANode::operator v1::Object() const {
  v1::Object object;
  *object.mutable_node() = node_;
  return object;
}

v1::Object AServiceCidr(const std::string& name, const std::vector<std::string>& cidrs) {
  v1::Object object;
  object.mutable_service_cidr()->mutable_metadata()->set_name(name);
  for (const std::string& cidr : cidrs) {
    object.mutable_service_cidr()->mutable_spec()->add_cidrs(cidr);
  }
  return object;
}

v1::ObjectRef ServiceRef(const std::string& namespace_and_name) {
  const auto [space, name] = Split(namespace_and_name);
  return Ref(v1::KIND_SERVICE, space, name);
}

v1::ObjectRef SliceRef(const std::string& namespace_and_name) {
  const auto [space, name] = Split(namespace_and_name);
  return Ref(v1::KIND_ENDPOINT_SLICE, space, name);
}

v1::ObjectRef NodeRef(const std::string& name) { return Ref(v1::KIND_NODE, "", name); }

v1::ObjectRef ServiceCidrRef(const std::string& name) {
  return Ref(v1::KIND_SERVICE_CIDR, "", name);
}

v1::Change Upsert(const v1::Object& object) {
  v1::Change change;
  switch (object.object_case()) {
    case v1::Object::kService:
      *change.mutable_service() = object.service();
      break;
    case v1::Object::kEndpointSlice:
      *change.mutable_endpoint_slice() = object.endpoint_slice();
      break;
    case v1::Object::kNode:
      *change.mutable_node() = object.node();
      break;
    case v1::Object::kServiceCidr:
      *change.mutable_service_cidr() = object.service_cidr();
      break;
    case v1::Object::OBJECT_NOT_SET:
      break;
  }
  return change;
}

v1::Change Removal(const v1::ObjectRef& ref) {
  v1::Change change;
  *change.mutable_remove() = ref;
  return change;
}

}  // namespace svcmap::testing
