#include "api/cli/columns.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/fields.h"
#include "api/convert/projection.h"
#include "proxy/names/kube_names.h"

namespace svcmap::api {
namespace {

constexpr int kEndpointsShown = 3;

std::string Or(const std::string& text, std::string_view otherwise) {
  return text.empty() ? std::string(otherwise) : text;
}

// Example: "80/TCP,443:30443/TCP,1000-2000/UDP". The number after the colon is the nodePort.
std::string PortsOf(const v1::ServiceSpec& spec) {
  std::vector<std::string> texts;
  for (const v1::ServicePort& port : spec.ports()) {
    std::string text = absl::StrCat(port.port());
    if (port.end_port() != 0) absl::StrAppend(&text, "-", port.end_port());
    if (port.node_port() != 0) absl::StrAppend(&text, ":", port.node_port());
    texts.push_back(absl::StrCat(text, "/", Or(port.protocol(), "TCP")));
  }
  return absl::StrJoin(texts, ",");
}

std::string ClusterIpsOf(const v1::ServiceSpec& spec) {
  return spec.cluster_ips().empty() ? spec.cluster_ip() : absl::StrJoin(spec.cluster_ips(), ",");
}

std::string ExternalIpsOf(const v1::Service& service) {
  std::vector<std::string> texts;
  for (const v1::LoadBalancerIngress& ingress : service.status().load_balancer().ingress()) {
    texts.push_back(Or(ingress.ip(), ingress.hostname()));
  }
  const auto& ips = service.spec().external_ips();
  texts.insert(texts.end(), ips.begin(), ips.end());
  if (texts.empty() && service.spec().type() == "LoadBalancer") return "<pending>";
  return absl::StrJoin(texts, ",");
}

// Returns the names of the chains that kube-proxy's iptables mode uses for the Service (S-203), in
// port order. Returns "" if the Service is not proxied (S-2).
std::string KubeChainsOf(const v1::Service& service) {
  const v1::ServiceSpec& spec = service.spec();
  const std::string cluster_ips = ClusterIpsOf(spec);
  if (spec.type() == "ExternalName" || cluster_ips.empty() || cluster_ips == "None") return "";
  const std::string key =
      absl::StrCat(service.metadata().namespace_(), "/", service.metadata().name());
  std::vector<std::string> texts;
  for (const v1::ServicePort& port : spec.ports()) {
    const std::optional<proxy::Protocol> protocol = ParseProtocol(port.protocol());
    if (!protocol) continue;
    texts.push_back("KUBE-SVC-" + proxy::KubeServiceHash(key, port.name(), *protocol));
  }
  return absl::StrJoin(texts, ",");
}

std::vector<std::string> Cells(const v1::Service& service, bool wide) {
  const v1::ServiceSpec& spec = service.spec();
  std::vector<std::string> cells = {service.metadata().namespace_(), service.metadata().name(),
                                    Or(spec.type(), "ClusterIP"),    ClusterIpsOf(spec),
                                    ExternalIpsOf(service),          PortsOf(spec)};
  if (wide) cells.push_back(KubeChainsOf(service));
  return cells;
}

std::string PortsOf(const v1::EndpointSlice& slice) {
  std::vector<std::string> texts;
  for (const v1::EndpointPort& port : slice.ports()) {
    texts.push_back(absl::StrCat(port.port(), "/", Or(port.protocol(), "TCP")));
  }
  return absl::StrJoin(texts, ",");
}

// Example: "10.1.0.5,10.1.0.6,10.1.0.7 + 4 more"
std::string EndpointsOf(const v1::EndpointSlice& slice) {
  std::vector<std::string> texts;
  for (const v1::Endpoint& endpoint : slice.endpoints()) {
    if (texts.size() == kEndpointsShown) break;
    texts.push_back(endpoint.addresses().empty() ? "<none>" : endpoint.addresses(0));
  }
  std::string text = absl::StrJoin(texts, ",");
  const int more = slice.endpoints_size() - kEndpointsShown;
  if (more > 0) absl::StrAppend(&text, " + ", more, " more");
  return text;
}

std::vector<std::string> Cells(const v1::EndpointSlice& slice) {
  const auto& labels = slice.metadata().labels();
  const auto service = labels.find(kServiceNameLabel);
  return {slice.metadata().namespace_(),
          slice.metadata().name(),
          service == labels.end() ? "" : service->second,
          slice.address_type(),
          PortsOf(slice),
          EndpointsOf(slice)};
}

std::vector<std::string> Cells(const v1::Node& node) {
  std::vector<std::string> texts;
  for (const v1::NodeAddress& address : node.status().addresses()) {
    if (address.type() == "InternalIP" || address.type() == "ExternalIP") {
      texts.push_back(address.address());
    }
  }
  return {node.metadata().name(), absl::StrJoin(texts, ",")};
}

std::vector<std::string> Cells(const v1::ServiceCIDR& cidr) {
  return {cidr.metadata().name(), absl::StrJoin(cidr.spec().cidrs(), ",")};
}

}  // namespace

std::vector<std::string> ColumnsOf(v1::Kind kind, bool wide) {
  switch (kind) {
    case v1::KIND_SERVICE:
      if (!wide) return {"NAMESPACE", "NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)"};
      return {"NAMESPACE",       "NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)",
              "KUBE-PROXY CHAIN"};
    case v1::KIND_ENDPOINT_SLICE:
      return {"NAMESPACE", "NAME", "SERVICE", "ADDRESSTYPE", "PORTS", "ENDPOINTS"};
    case v1::KIND_NODE:
      return {"NAME", "ADDRESSES"};
    case v1::KIND_SERVICE_CIDR:
      return {"NAME", "CIDRS"};
    default:
      return {};
  }
}

std::vector<std::string> CellsOf(const v1::Object& object, bool wide) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return Cells(object.service(), wide);
    case v1::Object::kEndpointSlice:
      return Cells(object.endpoint_slice());
    case v1::Object::kNode:
      return Cells(object.node());
    case v1::Object::kServiceCidr:
      return Cells(object.service_cidr());
    case v1::Object::OBJECT_NOT_SET:
      break;
  }
  return {};
}

}  // namespace svcmap::api
