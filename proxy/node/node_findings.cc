#include "proxy/node/node_findings.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
namespace {

// Interfaces that have clusterIPs as addresses on purpose: kube-proxy's in ipvs mode, and that of
// NodeLocal DNSCache.
constexpr const char* kClusterIpInterfaces[] = {"kube-ipvs0", "nodelocaldns"};

// The setting that selects addresses for nodePorts. The flag is --nodeport-addresses.
constexpr char kSetting[] = "nodePortAddresses";

constexpr size_t kMaxNetworks = 3;  // Further networks are only counted.

// A part of the network that becomes unreachable if a ServiceCIDR overlaps it.
struct Network {
  IpPrefix prefix;
  std::string name;
};

std::vector<Network> NetworksOf(const NodeFindingsInput& input, const Node* node) {
  std::vector<Network> networks;
  const auto add = [&](const IpPrefix& prefix, const std::string& name) {
    const auto same = [&](const Network& known) { return known.prefix == prefix; };
    if (std::ranges::none_of(networks, same)) networks.push_back({prefix, name});
  };
  for (const InterfaceAddress& address : input.addresses.interfaces) {
    if (address.IsSingle() || address.address.IsLoopback() || address.address.IsLinkLocal()) {
      continue;
    }
    const IpPrefix network = address.network();
    add(network, network.ToString() + " of interface " + address.interface);
  }
  for (const IpPrefix& pods : input.pod_cidrs) add(pods, pods.ToString() + " of pods");
  if (node == nullptr) return networks;
  // In some clouds, the interface has a single address and no network.
  for (const IpAddress& address : node->addresses) {
    const auto contains = [&](const Network& known) { return known.prefix.Contains(address); };
    if (std::ranges::any_of(networks, contains)) continue;
    add(IpPrefix(address, static_cast<uint8_t>(address.size() * 8)),
        address.ToString() + " of this node");
  }
  return networks;
}

void AddServiceCidrs(const NodeFindingsInput& input, const std::vector<Network>& networks,
                     std::vector<Finding>& findings) {
  for (const auto& [name, object] : input.store.service_cidrs()) {
    for (size_t i = 0; i < object->cidrs.size(); ++i) {
      const IpPrefix& cidr = object->cidrs[i];
      std::string names;
      size_t count = 0;
      for (const Network& network : networks) {
        if (!Overlap(cidr, network.prefix) || ++count > kMaxNetworks) continue;
        names += (names.empty() ? "" : ", ") + network.name;
      }
      if (count == 0) continue;
      if (count > kMaxNetworks) names += " and " + std::to_string(count - kMaxNetworks) + " more";
      findings.push_back(
          {.severity = Finding::Severity::kWarning,
           .kind = Kind::kServiceCidr,
           .key = name,
           .field = "spec.cidrs[" + std::to_string(i) + "]",
           .code = FindingCode::kInvalid,
           .value = cidr.ToString(),
           .reason = "must not overlap a network of the node or of pods, but overlaps " + names +
                     "; connections from this node and its pods to the addresses that are in both "
                     "are dropped"});
    }
  }
}

Finding OfNode(const NodeFindingsInput& input, const char* field, FindingCode code,
               std::string value, std::string reason) {
  return {.severity = Finding::Severity::kWarning,
          .kind = Kind::kNode,
          .key = input.node_name,
          .field = field,
          .code = code,
          .value = std::move(value),
          .reason = std::move(reason)};
}

// Reports families in which the setting selects addresses, but the node has none of them.
void AddClosedNodePorts(const NodeFindingsInput& input, const NodePortUse& use, const Node* node,
                        std::vector<Finding>& findings) {
  for (const Family family : kFamilies) {
    if (!use.any[Index(family)]) continue;
    if (std::ranges::find(input.accepted, family, &IpAddress::family) != input.accepted.end()) {
      continue;
    }
    const std::string name(FamilyName(family));
    const std::string closed = "no address accepts connections to " + name + " nodePorts";
    const IpAddress* primary = PrimaryAddress(node, family);
    if (input.node_port_addresses.primary && primary != nullptr) {
      findings.push_back(OfNode(input, "status.addresses", FindingCode::kInvalid,
                                primary->ToString(),
                                "must be an address of an interface of this node; " + closed));
      continue;
    }
    std::string cidrs;
    for (const IpPrefix& prefix : input.node_port_addresses.prefixes) {
      if (prefix.family() != family || prefix.address().IsLoopback()) continue;
      cidrs += (cidrs.empty() ? "" : ",") + prefix.ToString();
    }
    if (cidrs.empty()) continue;
    findings.push_back(OfNode(input, kSetting, FindingCode::kInvalid, cidrs,
                              "must contain an address of an interface of this node; " + closed));
  }
}

}  // namespace

bool Overlap(const IpPrefix& a, const IpPrefix& b) {
  return a.Contains(b.address()) || b.Contains(a.address());
}

NodePortUse NodePortUseOf(const Store& store, const std::vector<IpAddress>& accepted,
                          uint64_t max_elements) {
  NodePortUse use;
  uint64_t elements = 0;
  for (const Family family : kFamilies) {
    const auto node_ports = static_cast<uint64_t>(store.claims().node_ports(family));
    use.any[Index(family)] = node_ports > 0;
    const auto in_family = [family](const IpAddress& address) {
      return address.family() == family;
    };
    elements += node_ports * static_cast<uint64_t>(std::ranges::count_if(accepted, in_family));
  }
  // A node usually has one address per family, so its nodePorts need few elements.
  use.over_limit = elements > 0 && kElementsPerAddress * elements + store.elements() > max_elements;
  return use;
}

std::vector<Finding> NodeFindings(const NodeFindingsInput& input) {
  std::vector<Finding> findings;
  if (input.addresses.interfaces.empty()) return findings;  // Not known yet.
  const auto found = input.store.nodes().find(input.node_name);
  const Node* node = found == input.store.nodes().end() ? nullptr : found->second.get();
  if (node == nullptr && !input.store.nodes().empty()) {
    findings.push_back(
        OfNode(input, "metadata.name", FindingCode::kRequired, "",
               "no Node object has the name of this node (--node-name), but other Node objects "
               "exist; the addresses, pod CIDRs and zone of this node are unknown"));
  }
  AddServiceCidrs(input, NetworksOf(input, node), findings);
  const NodePortUse use = NodePortUseOf(input.store, input.accepted, input.max_elements);
  AddClosedNodePorts(input, use, node, findings);
  if (use.over_limit) {
    findings.push_back(
        OfNode(input, kSetting, FindingCode::kTooMany, std::to_string(input.accepted.size()),
               "addresses accept nodePorts, so all Services and nodePorts together have more than "
               "--max-elements " +
                   std::to_string(input.max_elements) +
                   " elements; --max-elements does not limit nodePorts"));
  }
  return findings;
}

ReservedAddresses ReservedAddressesOf(const NodeAddresses& addresses) {
  ReservedAddresses reserved;
  for (const InterfaceAddress& address : addresses.interfaces) {
    if (address.address.IsLoopback() || address.address.IsLinkLocal() ||
        std::ranges::find(kClusterIpInterfaces, address.interface) !=
            std::end(kClusterIpInterfaces)) {
      continue;
    }
    reserved.of_node.push_back(address.address);
  }
  for (const IpAddress& gateway : addresses.gateways) {
    if (!gateway.IsLinkLocal()) reserved.of_gateways.push_back(gateway);
  }
  for (auto* list : {&reserved.of_node, &reserved.of_gateways}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return reserved;
}

}  // namespace svcmap::proxy
