// Builders for the objects that the proxy receives:
//
//   AService("shop/web").At("10.96.0.1").Port(80).NodePort(30080)
//   ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.0.0.1").Hinted({.zones = {"za"}})
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/state/objects.h"

namespace svcmap::proxy::test {

inline IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }
inline IpPrefix Cidr(std::string_view text) { return *IpPrefix::Parse(text); }

inline std::vector<IpAddress> Ips(const std::vector<std::string>& texts) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : texts) addresses.push_back(Ip(text));
  return addresses;
}

// Each builder also appends its arguments to the object's message, so that equal objects have equal
// messages.
class AService {
 public:
  explicit AService(std::string key) { service_.key = std::move(key); }

  AService& At(std::string_view cluster_ip) {  // Call At once per address family.
    const IpAddress address = Ip(cluster_ip);
    service_.cluster_ip[Index(address.family())] = address;
    return Say("at", cluster_ip);
  }
  AService& External(std::string_view ip) {
    service_.external_ips.push_back(Ip(ip));
    return Say("external", ip);
  }
  AService& LoadBalancer(std::string_view ip) {
    service_.load_balancer_ips.push_back(Ip(ip));
    return Say("lb", ip);
  }
  AService& Port(uint16_t port, std::string name = "", Protocol protocol = Protocol::kTcp) {
    Say("port", name + " " + std::to_string(port)).Say("of", ProtocolName(protocol));
    service_.ports.push_back({.name = std::move(name), .protocol = protocol, .port = port});
    return *this;
  }
  AService& EndPort(uint16_t port) {  // Sets the end_port of the last added port.
    service_.ports.back().end_port = port;
    return Say("endPort", std::to_string(port));
  }
  AService& NodePort(uint16_t port) {  // Sets the nodePort of the last added port.
    service_.ports.back().node_port = port;
    return Say("nodePort", std::to_string(port));
  }
  AService& Created(int64_t when) {
    service_.created_unix_nanos = when;
    return Say("created", std::to_string(when));
  }
  AService& NotProxied() {
    service_.proxied = false;
    return Say("not", "proxied");
  }
  AService& InternalLocal() {
    service_.internal_policy = TrafficPolicy::kLocal;
    return Say("internal", "local");
  }
  AService& ExternalLocal() {
    service_.external_policy = TrafficPolicy::kLocal;
    return Say("external", "local");
  }
  AService& RouteWithoutLocal() {
    service_.route_without_local = true;
    return Say("without local", "route");
  }
  AService& SourceRange(std::string_view cidr) {
    service_.source_ranges.push_back(Cidr(cidr));
    return Say("range", cidr);
  }
  AService& Affinity(uint32_t seconds) {
    service_.affinity_seconds = seconds;
    return Say("affinity", std::to_string(seconds));
  }
  AService& ResetStaleTcp(std::optional<bool> reset) {
    service_.reset_stale_tcp = reset;
    return reset ? Say("resetStaleTCP", *reset ? "true" : "false") : *this;
  }

  AService& Pick(PickBy pick_by, uint32_t table_size = 0) {
    service_.pick_by = pick_by;
    service_.pick_table_size = table_size;
    return Say("pick",
               std::to_string(static_cast<int>(pick_by)) + " " + std::to_string(table_size));
  }
  AService& HealthCheck(uint16_t port) {
    service_.health_check_node_port = port;
    return Say("healthCheck", std::to_string(port));
  }

  std::shared_ptr<const Service> Build() const { return std::make_shared<Service>(service_); }
  operator Change() const {  // NOLINT(google-explicit-constructor): lists of mixed changes.
    return {.kind = Kind::kService, .key = service_.key, .service = Build()};
  }

 private:
  AService& Say(std::string_view what, std::string_view value) {
    service_.message.append(what).append(" ").append(value).append(";");
    return *this;
  }

  Service service_;
};

inline constexpr EndpointConditions kReady;
inline constexpr EndpointConditions kReadyTerminating = {true, true, true};
inline constexpr EndpointConditions kServingTerminating = {false, true, true};
inline constexpr EndpointConditions kServingOnly = {false, true, false};
inline constexpr EndpointConditions kDown = {false, false, false};
inline constexpr EndpointConditions kDownTerminating = {false, false, true};

class ASlice {
 public:
  ASlice(std::string key, std::string service_key, Family family = Family::kIpv4) {
    slice_.key = std::move(key);
    slice_.service_key = std::move(service_key);
    slice_.family = family;
    slice_.message = slice_.service_key + std::string(FamilyName(family));
  }

  ASlice& Port(uint16_t port, std::string name = "", Protocol protocol = Protocol::kTcp) {
    slice_.message += ";port " + name + std::to_string(port) + std::string(ProtocolName(protocol));
    slice_.ports.push_back({std::move(name), protocol, port});
    return *this;
  }
  ASlice& Endpoint(std::string_view ip, EndpointConditions conditions, bool local = false) {
    slice_.endpoints.push_back({Ip(ip), conditions, local, 0});
    slice_.message += ";" + std::string(ip) + (conditions.ready ? "r" : "") +
                      (conditions.serving ? "s" : "") + (conditions.terminating ? "t" : "") +
                      (local ? "l" : "");
    return *this;
  }
  // Sets the hints of the last added endpoint.
  ASlice& Hinted(EndpointHints hints) {
    for (const std::string& zone : hints.zones) slice_.message += "@" + zone;
    for (const std::string& node : hints.nodes) slice_.message += "%" + node;
    slice_.hints.push_back(std::move(hints));
    slice_.endpoints.back().hints = static_cast<uint16_t>(slice_.hints.size());
    return *this;
  }
  ASlice& Weight(uint16_t weight) {  // Sets the weight of the last added endpoint.
    slice_.endpoints.back().weight = weight;
    slice_.message += "w" + std::to_string(weight);
    return *this;
  }
  ASlice& Ready(std::string_view ip) { return Endpoint(ip, kReady); }
  ASlice& Local(std::string_view ip) { return Endpoint(ip, kReady, true); }

  std::shared_ptr<const EndpointSlice> Build() const {
    return std::make_shared<EndpointSlice>(slice_);
  }
  operator Change() const {  // NOLINT(google-explicit-constructor)
    return {.kind = Kind::kEndpointSlice, .key = slice_.key, .slice = Build()};
  }

 private:
  EndpointSlice slice_;
};

inline Change ANode(std::string name, const std::vector<std::string>& addresses,
                    std::string zone = "", const std::vector<std::string>& pod_cidrs = {}) {
  Node object{.name = name, .addresses = Ips(addresses), .zone = std::move(zone)};
  object.message = object.zone;
  for (const std::string& address : addresses) object.message += ";" + address;
  for (const std::string& text : pod_cidrs) {
    const IpPrefix cidr = Cidr(text);
    object.pod_cidr[Index(cidr.family())] = cidr;  // At most one CIDR per address family.
    object.message += ";" + text;
  }
  return {.kind = Kind::kNode,
          .key = std::move(name),
          .node = std::make_shared<Node>(std::move(object))};
}

inline Change AServiceCidr(std::string name, const std::vector<std::string>& cidrs) {
  ServiceCidr object{.name = name};
  for (const std::string& cidr : cidrs) {
    object.cidrs.push_back(Cidr(cidr));
    object.message += cidr + ";";
  }
  return {.kind = Kind::kServiceCidr,
          .key = std::move(name),
          .service_cidr = std::make_shared<ServiceCidr>(std::move(object))};
}

// The default Service and EndpointSlice of most tests.
inline AService Web() { return AService("shop/web").At("10.96.0.1").Port(80); }
inline ASlice WebSlice() { return ASlice("shop/web-1", "shop/web").Port(8080); }

inline Change Removal(Kind kind, std::string key) { return {.kind = kind, .key = std::move(key)}; }
inline Change NoService(std::string key) { return Removal(Kind::kService, std::move(key)); }
inline Change NoSlice(std::string key) { return Removal(Kind::kEndpointSlice, std::move(key)); }

}  // namespace svcmap::proxy::test
