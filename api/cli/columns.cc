#include "api/cli/columns.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/projection.h"
#include "api/convert/service_parts.h"
#include "nft/types/ip_address.h"
#include "proxy/names/kube_names.h"

namespace svcmap::api {
namespace {

// Joins all entries, or the first `shown` entries and the number of omitted entries.
std::string List(std::vector<std::string> texts, bool wide, size_t shown) {
  if (!wide && texts.size() > shown) {
    const std::string omitted = absl::StrCat("+", texts.size() - shown);
    texts.resize(shown);
    texts.push_back(omitted);
  }
  return absl::StrJoin(texts, ",");
}

bool IsReady(const v1::Endpoint& endpoint) {
  return !endpoint.conditions().has_ready() || endpoint.conditions().ready();
}

// Returns true for a ready endpoint with a valid address. svcmapd uses only the first address.
bool IsUsable(const v1::Endpoint& endpoint) {
  return IsReady(endpoint) && !endpoint.addresses().empty() &&
         IpAddress::Parse(endpoint.addresses(0));
}

std::string Or(const std::string& text, std::string_view otherwise) {
  return text.empty() ? std::string(otherwise) : text;
}

// Example: "80/TCP,443:30443/TCP,1000-2000/UDP". The number after the colon is the nodePort.
std::string PortsOf(const v1::Service& service, bool wide) {
  std::vector<std::string> texts;
  const std::vector<uint16_t> end_ports = EndPorts(service);
  for (const v1::ServicePort& port : service.spec().ports()) {
    std::string text = absl::StrCat(port.port());
    const uint16_t end_port = end_ports[texts.size()];
    if (end_port != 0) absl::StrAppend(&text, "-", end_port);
    if (port.node_port() != 0) absl::StrAppend(&text, ":", port.node_port());
    texts.push_back(absl::StrCat(text, "/", Or(port.protocol(), "TCP")));
  }
  return List(std::move(texts), wide, 2);
}

std::string ClusterIpsOf(const v1::ServiceSpec& spec, bool wide) {
  if (spec.cluster_ips().empty()) return spec.cluster_ip();
  return wide ? absl::StrJoin(spec.cluster_ips(), ",") : spec.cluster_ips(0);
}

std::string ExternalIpsOf(const v1::Service& service, bool wide) {
  std::vector<std::string> texts;
  for (const v1::LoadBalancerIngress& ingress : service.status().load_balancer().ingress()) {
    texts.push_back(Or(ingress.ip(), ingress.hostname()));
  }
  const auto& ips = service.spec().external_ips();
  texts.insert(texts.end(), ips.begin(), ips.end());
  if (texts.empty() && service.spec().type() == "LoadBalancer") return "<pending>";
  return List(std::move(texts), wide, 1);
}

// Returns the names of the chains that kube-proxy's iptables mode uses for the Service (S-203), in
// port order. Returns "" if the Service is not proxied (S-2).
std::string KubeChainsOf(const v1::Service& service) {
  const v1::ServiceSpec& spec = service.spec();
  const std::string cluster_ips = ClusterIpsOf(spec, false);
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

std::vector<std::string> Cells(const v1::Service& service, bool wide, const ReadyCounts& ready) {
  const v1::ServiceSpec& spec = service.spec();
  std::vector<std::string> cells = {service.metadata().namespace_(),
                                    service.metadata().name(),
                                    Or(spec.type(), "ClusterIP"),
                                    ClusterIpsOf(spec, wide),
                                    ExternalIpsOf(service, wide),
                                    PortsOf(service, wide),
                                    spec.type() == "ExternalName" ? "" : ready.Of(service)};
  if (wide) cells.push_back(KubeChainsOf(service));
  return cells;
}

std::string PortsOf(const v1::EndpointSlice& slice, bool wide) {
  std::vector<std::string> texts;
  for (const v1::EndpointPort& port : slice.ports()) {
    texts.push_back(absl::StrCat(port.port(), "/", Or(port.protocol(), "TCP")));
  }
  return List(std::move(texts), wide, 2);
}

// Example: "10.1.0.5,10.1.0.6 (weight 5, not ready),+4"
std::string EndpointsOf(const v1::EndpointSlice& slice, bool wide) {
  std::vector<std::string> texts;
  Report findings(proxy::Kind::kEndpointSlice, "");  // The agent reports them.
  const uint32_t default_weight = DefaultWeight(slice.metadata(), findings);
  for (const v1::Endpoint& endpoint : slice.endpoints()) {
    std::vector<std::string> remarks;
    const uint32_t weight = endpoint.has_weight() ? endpoint.weight() : default_weight;
    if (weight != 1) remarks.push_back(absl::StrCat("weight ", weight));
    if (!IsReady(endpoint)) {
      remarks.emplace_back(endpoint.conditions().terminating() ? "terminating" : "not ready");
    }
    texts.push_back(
        absl::StrCat(endpoint.addresses().empty() ? "<none>" : endpoint.addresses(0),
                     remarks.empty() ? "" : absl::StrCat(" (", absl::StrJoin(remarks, ", "), ")")));
  }
  return List(std::move(texts), wide, 2);
}

// Returns the name of the Service, or "".
std::string ServiceOf(const v1::EndpointSlice& slice) {
  const auto& labels = slice.metadata().labels();
  const auto service = labels.find(kServiceNameLabel);
  return service == labels.end() ? "" : service->second;
}

std::vector<std::string> Cells(const v1::EndpointSlice& slice, bool wide) {
  std::vector<std::string> cells = {slice.metadata().namespace_(), slice.metadata().name(),
                                    ServiceOf(slice)};
  if (wide) cells.push_back(slice.address_type());
  const auto ready = std::count_if(slice.endpoints().begin(), slice.endpoints().end(), IsUsable);
  cells.push_back(PortsOf(slice, wide));
  cells.push_back(absl::StrCat(ready, "/", slice.endpoints_size()));
  cells.push_back(EndpointsOf(slice, wide));
  return cells;
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

void ReadyCounts::Add(const v1::EndpointSlice& slice) {
  Count& count = counts_[{slice.metadata().namespace_(), ServiceOf(slice)}][slice.address_type()];
  count.all += static_cast<size_t>(slice.endpoints_size());
  count.ready += static_cast<size_t>(
      std::count_if(slice.endpoints().begin(), slice.endpoints().end(), IsUsable));
}

std::string ReadyCounts::Of(const v1::Service& service) const {
  Count shown;
  const auto found = counts_.find({service.metadata().namespace_(), service.metadata().name()});
  if (found != counts_.end()) {
    for (const auto& [type, count] : found->second) {
      if (count.all > shown.all) shown = count;
    }
  }
  return absl::StrCat(shown.ready, "/", shown.all);
}

std::vector<std::string> ColumnsOf(v1::Kind kind, bool wide) {
  switch (kind) {
    case v1::KIND_SERVICE:
      if (!wide) {
        return {"NAMESPACE", "NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "READY"};
      }
      return {"NAMESPACE",   "NAME",    "TYPE",  "CLUSTER-IP",
              "EXTERNAL-IP", "PORT(S)", "READY", "KUBE-PROXY CHAIN"};
    case v1::KIND_ENDPOINT_SLICE:
      if (!wide) return {"NAMESPACE", "NAME", "SERVICE", "PORTS", "READY", "ENDPOINTS"};
      return {"NAMESPACE", "NAME", "SERVICE", "ADDRESSTYPE", "PORTS", "READY", "ENDPOINTS"};
    case v1::KIND_NODE:
      return {"NAME", "ADDRESSES"};
    case v1::KIND_SERVICE_CIDR:
      return {"NAME", "CIDRS"};
    default:
      return {};
  }
}

std::vector<std::string> CellsOf(const v1::Object& object, bool wide, const ReadyCounts& ready) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return Cells(object.service(), wide, ready);
    case v1::Object::kEndpointSlice:
      return Cells(object.endpoint_slice(), wide);
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
