#include "api/check/target.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"

namespace svcmap::api {
namespace {

bool IsPort(int32_t number) { return number > 0 && number <= 65535; }

void Add(const CheckTarget& port, const std::string& role, const std::string& text,
         std::vector<CheckTarget>& targets) {
  const std::optional<IpAddress> address = IpAddress::Parse(text);
  if (!address) return;
  CheckTarget& target = targets.emplace_back(port);
  target.role = role;
  target.address = *address;
}

}  // namespace

std::string CheckTarget::ToString() const {
  return absl::StrCat(address.WithPort(port), "/", std::string(proxy::ProtocolName(protocol)));
}

void AddTargets(const v1::Service& service, const std::vector<IpAddress>& node_addresses,
                std::vector<CheckTarget>& targets) {
  const v1::ServiceSpec& spec = service.spec();
  const std::vector<uint16_t> end_ports = EndPorts(service);
  for (int i = 0; i < spec.ports_size(); ++i) {
    const v1::ServicePort& port = spec.ports(i);
    const std::optional<proxy::Protocol> protocol = ParseProtocol(port.protocol());
    if (!protocol || !IsPort(port.port())) continue;
    CheckTarget base;
    base.service = absl::StrCat(service.metadata().namespace_(), "/", service.metadata().name(),
                                port.name().empty() ? "" : ":", port.name());
    base.port = static_cast<uint16_t>(port.port());
    base.protocol = *protocol;
    base.is_range = end_ports[static_cast<size_t>(i)] > port.port();
    if (spec.cluster_ips().empty()) Add(base, "clusterIP", spec.cluster_ip(), targets);
    for (const std::string& ip : spec.cluster_ips()) Add(base, "clusterIP", ip, targets);
    for (const std::string& ip : spec.external_ips()) Add(base, "externalIP", ip, targets);
    for (const v1::LoadBalancerIngress& ingress : service.status().load_balancer().ingress()) {
      Add(base, "load balancer IP", ingress.ip(), targets);
    }
    if (!IsPort(port.node_port())) continue;
    base.port = static_cast<uint16_t>(port.node_port());
    base.role = "nodePort";
    base.is_range = false;
    for (const IpAddress& address : node_addresses) {
      base.address = address;
      targets.push_back(base);
    }
  }
}

v1::ExplainRequest ExplainRequestFor(const CheckTarget& target) {
  v1::ExplainRequest request;
  request.set_address(target.address.ToString());
  request.set_port(target.port);
  request.set_protocol(std::string(proxy::ProtocolName(target.protocol)));
  return request;
}

std::vector<IpAddress> InternalAddresses(const v1::Node& node) {
  std::vector<IpAddress> addresses;
  for (const v1::NodeAddress& entry : node.status().addresses()) {
    const std::optional<IpAddress> address = IpAddress::Parse(entry.address());
    if (entry.type() == "InternalIP" && address) addresses.push_back(*address);
  }
  return addresses;
}

void SampleTargets(size_t count, uint64_t seed, std::vector<CheckTarget>& targets) {
  std::vector<CheckTarget> sample;
  std::mt19937_64 random(seed);
  std::sample(std::make_move_iterator(targets.begin()), std::make_move_iterator(targets.end()),
              std::back_inserter(sample), count, random);
  targets = std::move(sample);
}

}  // namespace svcmap::api
