#include "tests/support/kube_encoding.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {
namespace {

constexpr char kMagic[] = {'k', '8', 's', '\0'};

// Encodes protobuf messages field by field.
class Bytes {
 public:
  Bytes& Text(int field, std::string_view value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Bytes& Message(int field, const Bytes& value) { return Text(field, value.bytes_); }
  // Encodes integers and booleans. Negative numbers occupy ten bytes.
  Bytes& Number(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  template <typename Strings>
  Bytes& Texts(int field, const Strings& values) {
    for (const std::string& value : values) Text(field, value);
    return *this;
  }
  template <typename StringMap>
  Bytes& Pairs(int field, const StringMap& values) {
    for (const auto& [key, value] : values) Message(field, Bytes().Text(1, key).Text(2, value));
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

std::string Uid(const v1::ObjectMeta& meta, const char* kind) {
  return absl::StrCat(kind, "-", meta.namespace_(), "-", meta.name(), "-0000-4000-8000");
}

// Encodes a metav1.Time in whole seconds. The zero time is encoded as an empty message.
Bytes Time(bool set, const google::protobuf::Timestamp& time) {
  Bytes bytes;
  if (set) bytes.Number(1, time.seconds()).Number(2, 0);
  return bytes;
}

Bytes Metadata(const v1::ObjectMeta& meta, const char* kind, uint64_t version) {
  Bytes bytes;
  bytes.Text(1, meta.name()).Text(2, "").Text(3, meta.namespace_()).Text(4, "");
  bytes.Text(5, Uid(meta, kind)).Text(6, absl::StrCat(version)).Number(7, 1);
  bytes.Message(8, Time(meta.has_creation_timestamp(), meta.creation_timestamp()));
  if (meta.has_deletion_timestamp()) {
    bytes.Message(9, Time(true, meta.deletion_timestamp())).Number(10, 30);
  }
  bytes.Pairs(11, meta.labels()).Pairs(12, meta.annotations());
  Bytes managed;  // Encoded as metav1.ManagedFieldsEntry.
  managed.Text(1, "kube-controller-manager").Text(2, "Update").Text(3, "v1");
  managed.Text(6, "FieldsV1").Message(7, Bytes().Text(1, R"({"f:metadata":{"f:labels":{}}})"));
  return std::move(bytes.Message(17, managed));
}

Bytes Port(const v1::ServicePort& port) {
  Bytes bytes;
  bytes.Text(1, port.name()).Text(2, port.protocol()).Number(3, port.port());
  // Encoded as IntOrString.
  bytes.Message(4, Bytes().Number(1, 1).Number(2, 0).Text(3, "the-port"));
  return std::move(bytes.Number(5, port.node_port()));
}

Bytes Of(const v1::Service& service, uint64_t version) {
  const v1::ServiceSpec& from = service.spec();
  Bytes spec;
  for (const v1::ServicePort& port : from.ports()) spec.Message(1, Port(port));
  spec.Message(2, Bytes().Text(1, "app").Text(2, "it"));
  spec.Text(3, from.cluster_ip()).Text(4, from.type()).Texts(5, from.external_ips());
  spec.Text(7, from.session_affinity()).Text(8, "");
  spec.Texts(9, from.load_balancer_source_ranges()).Text(10, "");
  spec.Text(11, from.external_traffic_policy()).Number(12, from.health_check_node_port());
  spec.Number(13, 0);
  if (from.has_session_affinity_config()) {
    Bytes client_ip;
    if (from.session_affinity_config().client_ip().has_timeout_seconds()) {
      client_ip.Number(1, from.session_affinity_config().client_ip().timeout_seconds());
    }
    spec.Message(14, Bytes().Message(1, client_ip));
  }
  spec.Text(17, "PreferDualStack").Texts(18, from.cluster_ips()).Texts(19, from.ip_families());
  if (from.has_internal_traffic_policy()) spec.Text(22, from.internal_traffic_policy());
  Bytes balancer;
  for (const v1::LoadBalancerIngress& ingress : service.status().load_balancer().ingress()) {
    Bytes point;
    point.Text(1, ingress.ip()).Text(2, ingress.hostname());
    if (ingress.has_ip_mode()) point.Text(3, ingress.ip_mode());
    balancer.Message(1, point);
  }
  Bytes bytes;
  bytes.Message(1, Metadata(service.metadata(), "Service", version));
  return std::move(bytes.Message(2, spec).Message(3, Bytes().Message(1, balancer)));
}

Bytes Of(const v1::Endpoint& endpoint) {
  Bytes bytes;
  bytes.Texts(1, endpoint.addresses());
  const v1::EndpointConditions& from = endpoint.conditions();
  Bytes conditions;
  if (from.has_ready()) conditions.Number(1, from.ready());
  if (from.has_serving()) conditions.Number(2, from.serving());
  if (from.has_terminating()) conditions.Number(3, from.terminating());
  bytes.Message(2, conditions);
  // Encodes an ObjectReference in the field targetRef.
  bytes.Message(4, Bytes().Text(1, "Pod").Text(3, "a-pod"));
  if (endpoint.has_node_name()) bytes.Text(6, endpoint.node_name());
  if (endpoint.has_zone()) bytes.Text(7, endpoint.zone());
  if (endpoint.has_hints()) {
    Bytes hints;
    for (const v1::ForZone& zone : endpoint.hints().for_zones()) {
      hints.Message(1, Bytes().Text(1, zone.name()));
    }
    for (const v1::ForNode& node : endpoint.hints().for_nodes()) {
      hints.Message(2, Bytes().Text(1, node.name()));
    }
    bytes.Message(8, hints);
  }
  return bytes;
}

Bytes Of(const v1::EndpointSlice& slice, uint64_t version) {
  Bytes bytes;
  bytes.Message(1, Metadata(slice.metadata(), "EndpointSlice", version));
  for (const v1::Endpoint& endpoint : slice.endpoints()) bytes.Message(2, Of(endpoint));
  for (const v1::EndpointPort& port : slice.ports()) {
    Bytes one;
    if (port.has_name()) one.Text(1, port.name());
    if (port.has_protocol()) one.Text(2, port.protocol());
    if (port.has_port()) one.Number(3, port.port());
    bytes.Message(3, one);
  }
  return std::move(bytes.Text(4, slice.address_type()));
}

Bytes Of(const v1::Node& node, uint64_t version) {
  Bytes spec;
  if (node.spec().pod_cidrs_size() > 0) spec.Text(1, node.spec().pod_cidrs(0));
  spec.Text(3, "example://it").Number(4, 0);
  for (const v1::Taint& taint : node.spec().taints()) {
    spec.Message(5, Bytes().Text(1, taint.key()).Text(2, taint.value()).Text(3, taint.effect()));
  }
  spec.Texts(7, node.spec().pod_cidrs());
  Bytes status;
  status.Text(3, "");  // Encode an empty phase.
  for (const v1::NodeAddress& address : node.status().addresses()) {
    status.Message(5, Bytes().Text(1, address.type()).Text(2, address.address()));
  }
  Bytes bytes;
  bytes.Message(1, Metadata(node.metadata(), "Node", version));
  return std::move(bytes.Message(2, spec).Message(3, status));
}

Bytes Of(const v1::ServiceCIDR& cidr, uint64_t version) {
  Bytes bytes;
  bytes.Message(1, Metadata(cidr.metadata(), "ServiceCIDR", version));
  return std::move(bytes.Message(2, Bytes().Texts(1, cidr.spec().cidrs())).Message(3, Bytes()));
}

}  // namespace

std::string Enveloped(const std::string& api_version, const std::string& kind,
                      std::string_view raw) {
  Bytes unknown;
  unknown.Message(1, Bytes().Text(1, api_version).Text(2, kind));
  unknown.Text(2, raw).Text(3, "").Text(4, "");
  return std::string(kMagic, sizeof(kMagic)) + unknown.Take();
}

const CollectionNames& NamesOf(Collection collection) {
  static constexpr CollectionNames kNames[] = {
      {"v1", "Service", "services", true},
      {"discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true},
      {"v1", "Node", "nodes", false},
      {"networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", false}};
  return kNames[static_cast<size_t>(collection)];
}

Collection CollectionOf(const v1::Object& object) {
  if (object.has_service()) return Collection::kServices;
  if (object.has_endpoint_slice()) return Collection::kEndpointSlices;
  if (object.has_node()) return Collection::kNodes;
  if (object.has_service_cidr()) return Collection::kServiceCidrs;
  std::abort();
}

const v1::ObjectMeta& MetadataOf(const v1::Object& object) {
  switch (CollectionOf(object)) {
    case Collection::kServices:
      return object.service().metadata();
    case Collection::kEndpointSlices:
      return object.endpoint_slice().metadata();
    case Collection::kNodes:
      return object.node().metadata();
    case Collection::kServiceCidrs:
      break;
  }
  return object.service_cidr().metadata();
}

std::string EncodeItem(const v1::Object& object, uint64_t version) {
  switch (CollectionOf(object)) {
    case Collection::kServices:
      return Of(object.service(), version).Take();
    case Collection::kEndpointSlices:
      return Of(object.endpoint_slice(), version).Take();
    case Collection::kNodes:
      return Of(object.node(), version).Take();
    case Collection::kServiceCidrs:
      break;
  }
  return Of(object.service_cidr(), version).Take();
}

std::string EncodeObject(Collection collection, const std::string& item) {
  const CollectionNames& names = NamesOf(collection);
  return Enveloped(names.api_version, names.kind, item);
}

std::string EncodeList(Collection collection, const std::vector<const std::string*>& items,
                       uint64_t version, const std::string& continue_token, int64_t remaining) {
  const CollectionNames& names = NamesOf(collection);
  Bytes meta;
  meta.Text(1, "").Text(2, absl::StrCat(version)).Text(3, continue_token);
  if (remaining > 0) meta.Number(4, remaining);
  Bytes list;
  list.Message(1, meta);
  for (const std::string* item : items) list.Text(2, *item);
  return Enveloped(names.api_version, absl::StrCat(names.kind, "List"), list.Take());
}

std::string EncodeStatus(int code, const std::string& reason, const std::string& message) {
  Bytes status;
  status.Message(1, Bytes().Text(1, "").Text(2, "").Text(3, ""));
  status.Text(2, "Failure").Text(3, message).Text(4, reason);
  status.Message(5, Bytes().Text(1, "").Text(2, "").Text(3, ""));
  return Enveloped("v1", "Status", status.Number(6, code).Take());
}

std::string EncodeEvent(std::string_view type, const std::string& object) {
  const std::string event =
      Bytes().Text(1, type).Message(2, Bytes().Text(1, object)).Take();  // Encoded as RawExtension.
  std::string frame;
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(event.size() >> shift);
  return frame + event;
}

std::string EncodeBookmark(Collection collection, uint64_t version) {
  Bytes meta;
  meta.Text(1, "").Text(2, "").Text(3, "").Text(6, absl::StrCat(version)).Message(8, Bytes());
  return EncodeObject(collection, Bytes().Message(1, meta).Take());
}

}  // namespace svcmap::testing
