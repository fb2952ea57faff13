#include "tests/differential/model_service.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

namespace svcmap::testing {
namespace {

bool Has(const google::protobuf::Map<std::string, std::string>& labels, const std::string& name) {
  return labels.find(name) != labels.end();
}

std::string Label(const google::protobuf::Map<std::string, std::string>& labels,
                  const std::string& name) {
  const auto found = labels.find(name);
  return found == labels.end() ? "" : found->second;
}

std::string Trimmed(const std::string& text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  auto first = std::find_if_not(text.begin(), text.end(), blank);
  auto last = std::find_if_not(text.rbegin(), text.rend(), blank).base();
  return first < last ? std::string(first, last) : "";
}

Protocol ProtocolOf(const std::string& text) {
  if (text == "UDP") return Protocol::kUdp;
  return text == "SCTP" ? Protocol::kSctp : Protocol::kTcp;
}

ModelEndpoints Only(const ModelEndpoints& all,
                    const std::function<bool(const ModelEndpoint&)>& wanted) {
  ModelEndpoints some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), wanted);
  return some;
}

bool IsReady(const ModelEndpoint& endpoint) { return endpoint.ready; }
bool IsSt(const ModelEndpoint& endpoint) { return endpoint.ServingTerminating(); }
bool IsLocal(const ModelEndpoint& endpoint) { return endpoint.local; }

// Implements requirement S-3. Returns nullopt if the Service does not exist in this IP family.
std::optional<TextAddress> ClusterIp(const v1::ServiceSpec& spec, bool v6) {
  std::vector<std::string> ips(spec.cluster_ips().begin(), spec.cluster_ips().end());
  if (ips.empty()) ips = {spec.cluster_ip()};
  std::string text;
  if (spec.ip_families_size() == 0) {
    text = spec.cluster_ip();
  } else {
    for (int i = 0; i < spec.ip_families_size(); ++i) {
      const bool wanted = spec.ip_families(i) == (v6 ? "IPv6" : "IPv4");
      if (wanted && static_cast<size_t>(i) < ips.size()) text = ips[static_cast<size_t>(i)];
    }
  }
  const auto address = TextAddress::Parse(text);
  return address && address->v6 == v6 ? address : std::nullopt;
}

// Implements S-6.
std::vector<TextAddress> ExternalIps(const v1::ServiceSpec& spec, bool v6) {
  std::vector<TextAddress> ips;
  for (const std::string& text : spec.external_ips()) {
    const auto address = TextAddress::Parse(Trimmed(text));
    if (address && address->v6 == v6) ips.push_back(*address);
  }
  return ips;
}

// Implements S-7.
std::vector<TextAddress> LoadBalancerIps(const v1::ServiceStatus& status, bool v6) {
  std::vector<TextAddress> ips;
  for (const v1::LoadBalancerIngress& ingress : status.load_balancer().ingress()) {
    if (ingress.has_ip_mode() && ingress.ip_mode() == "Proxy") continue;
    const auto address = TextAddress::Parse(ingress.ip());
    if (address && address->v6 == v6) ips.push_back(*address);
  }
  return ips;
}

// Implements S-11.
std::vector<TextPrefix> SourceRanges(const v1::ServiceSpec& spec, bool v6) {
  std::vector<TextPrefix> ranges;
  for (const std::string& text : spec.load_balancer_source_ranges()) {
    const auto range = TextPrefix::Parse(Trimmed(text));
    if (!range || range->address.v6 != v6) continue;
    if (range->length == 0) return {};
    ranges.push_back(*range);
  }
  return ranges;
}

// Implements S-10.
bool ExternalLocal(const v1::ServiceSpec& spec) {
  if (spec.external_traffic_policy() != "Local") return false;
  return spec.type() == "LoadBalancer" || spec.type() == "NodePort" || spec.external_ips_size() > 0;
}

// Implements requirements S-17, S-18 and S-19.
bool SliceServes(const v1::EndpointSlice& slice, const v1::Service& service, bool v6) {
  return !Has(slice.metadata().labels(), "service.kubernetes.io/headless") &&
         slice.metadata().namespace_() == service.metadata().namespace_() &&
         Label(slice.metadata().labels(), "kubernetes.io/service-name") ==
             service.metadata().name() &&
         slice.address_type() == (v6 ? "IPv6" : "IPv4");
}

ModelEndpoint EndpointOf(const v1::Endpoint& endpoint, const TextAddress& ip, uint16_t port,
                         const std::string& node_name) {
  const v1::EndpointConditions& conditions = endpoint.conditions();
  ModelEndpoint made;
  made.ip = ip;
  made.port = port;
  made.ready = !conditions.has_ready() || conditions.ready();                   // S-24
  made.serving = !conditions.has_serving() || conditions.serving();             // S-24
  made.terminating = conditions.has_terminating() && conditions.terminating();  // S-24
  made.local = endpoint.has_node_name() && !endpoint.node_name().empty() &&     // S-23
               endpoint.node_name() == node_name;
  made.drained = endpoint.has_weight() && endpoint.weight() == 0;
  if (endpoint.has_weight()) made.weight = endpoint.weight();
  for (const v1::ForZone& zone : endpoint.hints().for_zones()) made.zone_hints.insert(zone.name());
  for (const v1::ForNode& node : endpoint.hints().for_nodes()) made.node_hints.insert(node.name());
  return made;
}

// Implements requirements S-20 and S-21.
bool PortServes(const v1::EndpointPort& slice_port, const ModelServicePort& port) {
  return slice_port.has_name() && slice_port.has_port() && slice_port.port() != 0 &&
         slice_port.name() == port.name && ProtocolOf(slice_port.protocol()) == port.protocol;
}

// Calls fn(slice port, endpoint) for each endpoint of each slice port in the Service's slices.
void ForEachInSlices(const Objects& objects, const v1::Service& service, bool v6,
                     const std::string& node_name,
                     const std::function<void(const v1::EndpointPort&, const ModelEndpoint&)>& fn) {
  for (const v1::Object& object : objects) {
    const v1::EndpointSlice& slice = object.endpoint_slice();
    if (!object.has_endpoint_slice() || !SliceServes(slice, service, v6)) continue;
    for (const v1::EndpointPort& port : slice.ports()) {
      for (const v1::Endpoint& endpoint : slice.endpoints()) {
        if (endpoint.addresses_size() == 0) continue;
        const auto ip = TextAddress::Parse(endpoint.addresses(0));
        if (!ip) continue;
        fn(port, EndpointOf(endpoint, *ip, static_cast<uint16_t>(port.port()), node_name));
      }
    }
  }
}

// Implements requirements S-22, S-26 and S-28.
ModelEndpoints EndpointsOf(const v1::Service& service, const ModelServicePort& port,
                           const Objects& objects, bool v6) {
  std::map<std::string, ModelEndpoint> by_text;  // Endpoints sorted by their string form (S-27).
  const auto add = [&](const v1::EndpointPort& slice_port, ModelEndpoint made) {
    if (!PortServes(slice_port, port)) return;
    if (port.IsRange()) made.port = 0;
    const auto [kept, added] = by_text.emplace(made.ToString(), made);
    if (!added && kept->second.terminating && !made.terminating) kept->second = made;
  };
  ForEachInSlices(objects, service, v6, port.node_name, add);
  ModelEndpoints endpoints;
  for (const auto& [text, endpoint] : by_text) {
    if (!endpoint.drained) endpoints.push_back(endpoint);
  }
  return endpoints;
}

// Implements requirements S-1 and S-2.
bool IsProxied(const v1::Service& service) {
  return !Has(service.metadata().labels(), "service.kubernetes.io/service-proxy-name") &&
         !service.spec().cluster_ip().empty() && service.spec().cluster_ip() != "None" &&
         service.spec().type() != "ExternalName";
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() < 6 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

// Removes leading zeros, for example converts "010.0.00.1" to "10.0.0.1". Returns any other text
// unchanged.
std::string WithoutLeadingZeros(const std::string& text) {
  std::string plain;
  std::string octet;
  for (const char c : text + ".") {
    if (c != '.') {
      octet += c;
      continue;
    }
    if (!IsNumber(octet)) return text;
    plain += std::to_string(std::stoi(octet)) + ".";
    octet.clear();
  }
  plain.pop_back();
  return plain;
}

}  // namespace

std::string ModelEndpoint::ToString() const {
  const std::string text = ip.ToString();
  return (ip.v6 ? "[" + text + "]" : text) + ":" + std::to_string(port);
}

// Implements requirements S-29, S-65 and S-109.
ModelNode ModelNode::Of(const Objects& objects, const std::string& name) {
  ModelNode node;
  node.name = name;
  node.ip.resize(2);
  node.pod_cidr.resize(2);
  for (const v1::Object& object : objects) {
    if (!object.has_node() || object.node().metadata().name() != name) continue;
    const v1::Node& message = object.node();
    node.zone = Label(message.metadata().labels(), "topology.kubernetes.io/zone");
    for (const char* type : {"InternalIP", "ExternalIP"}) {
      for (const v1::NodeAddress& entry : message.status().addresses()) {
        const auto address = TextAddress::Parse(entry.address());
        if (entry.type() != type || !address) continue;
        auto& slot = node.ip[address->v6 ? 1 : 0];
        if (!slot) slot = address;
      }
    }
    for (const std::string& text : message.spec().pod_cidrs()) {
      const auto cidr = TextPrefix::Parse(text);
      if (!cidr) continue;
      auto& slot = node.pod_cidr[cidr->address.v6 ? 1 : 0];
      if (!slot) slot = cidr;
    }
  }
  return node;
}

std::string ModelServicePort::ToString() const {
  return service + ":" + name + "/" + ProtocolName(protocol);
}

// Implements S-9.
bool ModelServicePort::ExternallyAccessible() const {
  return node_port != 0 || !load_balancer_ips.empty() || !external_ips.empty();
}

ModelEndpoints ModelServicePort::ClusterSet() const {
  if (internal_local && !ExternallyAccessible()) return {};  // S-30
  const ModelEndpoints ready = Only(endpoints, IsReady);
  if (ready.empty()) return Only(endpoints, IsSt);  // S-33
  // Implements (b) and (c) of requirement S-32.
  const auto on_node = [this](const ModelEndpoint& e) { return e.node_hints.count(node_name) > 0; };
  const auto in_zone = [this](const ModelEndpoint& e) {
    return !node_zone.empty() && e.zone_hints.count(node_zone) > 0;
  };
  const bool all_name_nodes =
      std::all_of(ready.begin(), ready.end(), [](const auto& e) { return !e.node_hints.empty(); });
  if (all_name_nodes && !Only(ready, on_node).empty()) return Only(ready, on_node);
  const bool all_name_zones =
      std::all_of(ready.begin(), ready.end(), [](const auto& e) { return !e.zone_hints.empty(); });
  if (all_name_zones && !Only(ready, in_zone).empty()) return Only(ready, in_zone);
  return ready;  // S-32 (d): without usable hints, all ready endpoints are used.
}

ModelEndpoints ModelServicePort::LocalSet() const {
  if (!internal_local && !(external_local && ExternallyAccessible())) return {};  // S-31
  const ModelEndpoints local = Only(endpoints, IsLocal);
  const ModelEndpoints ready = Only(local, IsReady);
  return ready.empty() ? Only(local, IsSt) : ready;  // S-34
}

bool ModelServicePort::MayBeRouted(const TextAddress& address) const {
  return external_local && route_without_local && address != cluster_ip;
}

bool ModelServicePort::IsRouted(const TextAddress& address) const {
  return MayBeRouted(address) && LocalSet().empty();
}

// Implements S-35.
bool ModelServicePort::HasEndpoints() const {
  return std::any_of(endpoints.begin(), endpoints.end(),
                     [](const ModelEndpoint& e) { return IsReady(e) || IsSt(e); });
}

// Implements S-36.
ModelEndpoints ModelServicePort::ReachableSet() const {
  std::set<std::string> reachable;
  for (const ModelEndpoint& endpoint : ClusterSet()) reachable.insert(endpoint.ToString());
  for (const ModelEndpoint& endpoint : LocalSet()) reachable.insert(endpoint.ToString());
  return Only(endpoints, [&](const ModelEndpoint& e) { return reachable.count(e.ToString()) > 0; });
}

std::vector<ModelServicePort> ModelServicePorts(const Objects& objects, const ModelNode& node,
                                                bool v6) {
  std::vector<ModelServicePort> ports;
  for (const v1::Object& object : objects) {
    if (!object.has_service() || !IsProxied(object.service())) continue;
    const v1::Service& service = object.service();
    const v1::ServiceSpec& spec = service.spec();
    const auto cluster_ip = ClusterIp(spec, v6);
    if (!cluster_ip) continue;
    for (const v1::ServicePort& entry : spec.ports()) {  // S-4
      ModelServicePort port;
      port.service = service.metadata().namespace_() + "/" + service.metadata().name();
      port.name = entry.name();
      port.created = service.metadata().creation_timestamp().seconds();
      port.protocol = ProtocolOf(entry.protocol());
      port.port = static_cast<uint16_t>(entry.port());
      port.end_port = static_cast<uint16_t>(entry.end_port());
      port.node_port = static_cast<uint16_t>(entry.node_port());  // S-8
      port.cluster_ip = *cluster_ip;
      port.external_ips = ExternalIps(spec, v6);
      port.load_balancer_ips = LoadBalancerIps(service.status(), v6);
      port.ranges = SourceRanges(spec, v6);
      port.external_local = ExternalLocal(spec);
      port.route_without_local =
          service.metadata().annotations().contains("svcmap/no-local-endpoint");
      port.internal_local = spec.internal_traffic_policy() == "Local";  // S-10
      if (spec.session_affinity() == "ClientIP") {
        port.affinity = true;  // S-14
      } else if (spec.endpoint_pick() != "Random") {
        port.pick = spec.endpoint_pick();
      }
      port.table_size = spec.pick_table_size();
      port.node_name = node.name;
      port.node_zone = node.zone;
      port.endpoints = EndpointsOf(service, port, objects, v6);
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

const v1::Service* FindService(const Objects& objects, const std::string& key) {
  for (const v1::Object& object : objects) {
    const v1::ObjectMeta& metadata = object.service().metadata();
    if (object.has_service() && metadata.namespace_() + "/" + metadata.name() == key) {
      return &object.service();
    }
  }
  return nullptr;
}

std::set<std::string> TcpEndpointsInSlices(const Objects& objects, const v1::Service& service,
                                           bool v6) {
  std::set<std::string> endpoints;
  ForEachInSlices(objects, service, v6, /*node_name=*/"",
                  [&](const v1::EndpointPort& port, const ModelEndpoint& endpoint) {
                    if (ProtocolOf(port.protocol()) != Protocol::kTcp) return;
                    endpoints.insert(endpoint.ToString());
                  });
  return endpoints;
}

std::optional<TextAddress> TextAddress::Parse(const std::string& text) {
  TextAddress address;
  address.v6 = text.find(':') != std::string::npos;
  const std::string plain = address.v6 ? text : WithoutLeadingZeros(text);
  if (inet_pton(address.v6 ? AF_INET6 : AF_INET, plain.c_str(), address.bytes.data()) != 1) {
    return std::nullopt;
  }
  return address;
}

std::string TextAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), text, sizeof(text));
  return text;
}

bool TextAddress::IsLoopback() const { return v6 ? ToString() == "::1" : bytes[0] == 127; }

std::optional<TextPrefix> TextPrefix::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || !IsNumber(text.substr(slash + 1))) return std::nullopt;
  const auto address = TextAddress::Parse(text.substr(0, slash));
  const int length = std::stoi(text.substr(slash + 1));
  if (!address || length > (address->v6 ? 128 : 32)) return std::nullopt;
  return TextPrefix{*address, length};
}

bool TextPrefix::Contains(const TextAddress& other) const {
  if (address.v6 != other.v6) return false;
  for (int bit = 0; bit < length; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((address.bytes[byte] & mask) != (other.bytes[byte] & mask)) return false;
  }
  return true;
}

}  // namespace svcmap::testing
