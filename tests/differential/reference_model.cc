#include "tests/differential/reference_model.h"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace svcmap::testing {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// Implements requirement S-69. Returns nullopt if the list has no block of this IP family.
std::optional<TextPrefix> FirstOfFamily(const std::string& list, bool v6) {
  for (const std::string& text : SplitAtCommas(list)) {
    const auto prefix = TextPrefix::Parse(text);
    if (prefix && prefix->address.v6 == v6) return prefix;
  }
  return std::nullopt;
}

bool Contains(const std::vector<TextAddress>& list, const TextAddress& address) {
  return std::find(list.begin(), list.end(), address) != list.end();
}

bool HasAddress(const ModelServicePort& port, const TextAddress& address) {
  return port.cluster_ip == address || Contains(port.external_ips, address) ||
         Contains(port.load_balancer_ips, address);
}

// Implements requirement S-16. Returns null if there are no claimants.
const ModelServicePort* Precedent(const std::vector<const ModelServicePort*>& claimants) {
  const ModelServicePort* oldest = nullptr;  // Of the Services with a creation time.
  const ModelServicePort* first = nullptr;   // The Service that the agent received first.
  for (const ModelServicePort* port : claimants) {
    if (first == nullptr ||
        std::tie(port->first_seen, port->service) < std::tie(first->first_seen, first->service)) {
      first = port;
    }
    if (port->created == 0) continue;
    if (oldest == nullptr ||
        std::tie(port->created, port->service) < std::tie(oldest->created, oldest->service)) {
      oldest = port;
    }
  }
  return first != nullptr && first->created != 0 ? oldest : first;
}

Prediction Rejected(Verdict verdict, const ModelServicePort* port, const std::string& why) {
  Prediction prediction;
  prediction.verdict = verdict;
  if (port != nullptr) prediction.service_port = port->ToString();
  prediction.why = why;
  return prediction;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Packet& packet) {
  return out << packet.source << " ("
             << (packet.interface.empty() ? "process on the node" : "by " + packet.interface)
             << ") -> " << packet.destination << " " << packet.port << "/"
             << ProtocolName(packet.protocol);
}

std::string Prediction::ToString() const {
  std::string text;
  switch (verdict) {
    case Verdict::kRejected:
      text = "REJECT";
      break;
    case Verdict::kDropped:
      text = "DROP";
      break;
    case Verdict::kUntouched:
      text = "untouched";
      break;
    case Verdict::kDelivered:
      for (const Choice& choice : choices) {
        text += (text.empty() ? "" : ", ") + choice.ip + " " + std::to_string(choice.port) +
                (choice.masqueraded ? " masqueraded" : "");
      }
      break;
  }
  text += " (" + why;
  if (!service_port.empty()) text += "; " + service_port;
  if (!pick.empty()) text += ", pick " + pick;
  return text + (affinity ? ", affinity)" : ")");
}

ReferenceModel::ReferenceModel(const ProxySettings& settings,
                               const std::vector<std::string>& node_addresses,
                               const Objects& objects, const FirstSeen& first_seen)
    : settings_(settings), node_(ModelNode::Of(objects, settings.node_name)) {
  for (const std::string& text : node_addresses) {
    if (const auto address = TextAddress::Parse(text)) node_addresses_.insert(*address);
  }
  for (const bool v6 : {false, true}) {
    World world;
    world.ports = ModelServicePorts(objects, node_, v6);
    for (ModelServicePort& port : world.ports) {
      world.cluster_ips.insert(port.cluster_ip);
      const auto seen = first_seen.find(port.service);
      if (seen != first_seen.end()) port.first_seen = seen->second;
    }
    for (const v1::Object& object : objects) {  // S-105: ranges of ServiceCIDRs.
      for (const std::string& text : object.service_cidr().spec().cidrs()) {
        const auto cidr = TextPrefix::Parse(text);
        if (cidr && cidr->address.v6 == v6) world.service_cidrs.push_back(*cidr);
      }
    }
    worlds_.push_back(std::move(world));
  }
}

std::map<std::string, std::set<std::string>> ReferenceModel::AffineEndpoints() const {
  std::map<std::string, std::set<std::string>> affine;
  for (const World& world : worlds_) {
    for (const ModelServicePort& port : world.ports) {
      if (!port.affinity) continue;
      std::set<std::string>& endpoints = affine[port.ToString()];
      for (const ModelEndpoint& endpoint : port.ReachableSet()) {
        endpoints.insert(endpoint.ToString());
      }
    }
  }
  return affine;
}

// Implements S-68.
bool ReferenceModel::DetectorPresent(bool v6) const {
  switch (settings_.detector) {
    case ProxySettings::Detector::kClusterCidr:
      return FirstOfFamily(settings_.cluster_cidr, v6).has_value();
    case ProxySettings::Detector::kNodeCidr:
      return node_.pod_cidr[v6 ? 1 : 0].has_value();
    case ProxySettings::Detector::kBridgeInterface:
    case ProxySettings::Detector::kInterfaceNamePrefix:
      return true;
  }
  return false;
}

// Implements requirements S-64 to S-67 and S-70. Returns false if no detector is configured.
bool ReferenceModel::IsPod(const Packet& packet, const TextAddress& source) const {
  if (!DetectorPresent(source.v6)) return false;
  switch (settings_.detector) {
    case ProxySettings::Detector::kClusterCidr:
      return FirstOfFamily(settings_.cluster_cidr, source.v6)->Contains(source);
    case ProxySettings::Detector::kNodeCidr:
      return node_.pod_cidr[source.v6 ? 1 : 0]->Contains(source);
    case ProxySettings::Detector::kBridgeInterface:
      return packet.interface == settings_.pod_interface;
    case ProxySettings::Detector::kInterfaceNamePrefix:
      return !packet.interface.empty() && packet.interface.rfind(settings_.pod_interface, 0) == 0;
  }
  return false;
}

// Implements requirements S-108 to S-113.
bool ReferenceModel::TakesNodePorts(const TextAddress& address) const {
  if (node_addresses_.count(address) == 0 || address.IsLoopback()) return false;
  bool any_of_family = false;
  for (const std::string& item : SplitAtCommas(settings_.nodeport_addresses)) {
    if (item == "all") return true;  // S-112
    if (item == "primary") {         // S-109
      const auto& primary = node_.ip[address.v6 ? 1 : 0];
      if (!primary || primary->IsLoopback()) continue;
      any_of_family = true;
      if (*primary == address) return true;
      continue;
    }
    any_of_family |= item == "localhost";  // Contains only loopback addresses, of both families.
    const auto block = TextPrefix::Parse(item);
    if (!block || block->address.v6 != address.v6) continue;
    any_of_family = true;
    if (block->Contains(address)) return true;  // S-111: a /0 block contains all addresses.
  }
  return !any_of_family;  // S-110: without an address of this family, all addresses accept.
}

const ModelServicePort* ReferenceModel::OwnerOfAddress(const Flow& flow) const {
  std::vector<const ModelServicePort*> claimants;
  for (const ModelServicePort& port : Of(flow.destination.v6).ports) {
    if (port.protocol != flow.protocol || port.port != flow.port || port.IsRange()) continue;
    if (HasAddress(port, flow.destination)) claimants.push_back(&port);
  }
  return Precedent(claimants);
}

// One Service has all ranges of an address and a protocol.
const ModelServicePort* ReferenceModel::OwnerOfRange(const Flow& flow) const {
  if (!settings_.port_ranges) return nullptr;
  const std::vector<ModelServicePort>& ports = Of(flow.destination.v6).ports;
  const auto is_candidate = [&](const ModelServicePort& port) {
    return port.IsRange() && port.protocol == flow.protocol && HasAddress(port, flow.destination);
  };
  std::vector<const ModelServicePort*> claimants;
  for (const ModelServicePort& port : ports) {
    if (is_candidate(port)) claimants.push_back(&port);
  }
  const ModelServicePort* owner = Precedent(claimants);
  for (const ModelServicePort& port : ports) {
    if (!is_candidate(port) || port.service != owner->service) continue;
    if (port.port <= flow.port && flow.port <= port.end_port) return &port;
  }
  return nullptr;
}

const ModelServicePort* ReferenceModel::OwnerOfNodePort(const Flow& flow) const {
  if (!TakesNodePorts(flow.destination)) return nullptr;
  std::vector<const ModelServicePort*> claimants;
  for (const ModelServicePort& port : Of(flow.destination.v6).ports) {
    if (port.protocol != flow.protocol || port.node_port == 0) continue;
    if (port.node_port == flow.port) claimants.push_back(&port);
  }
  return Precedent(claimants);
}

// Implements requirements S-116 and S-118.
bool ReferenceModel::SourceAllowed(const ModelServicePort& port, const TextAddress& source) const {
  if (port.ranges.empty()) return true;
  const auto in_a_range = [&](const TextAddress& address) {
    return std::any_of(port.ranges.begin(), port.ranges.end(),
                       [&](const TextPrefix& range) { return range.Contains(address); });
  };
  if (in_a_range(source)) return true;
  const TextAddress own =
      node_.ip[source.v6 ? 1 : 0].value_or(*TextAddress::Parse(source.v6 ? "::1" : "127.0.0.1"));
  return in_a_range(own) && Contains(port.load_balancer_ips, source);
}

// Implements S-97.
bool ReferenceModel::IsHairpin(const Flow& flow, const ModelEndpoint& endpoint) const {
  if (flow.source != endpoint.ip) return false;
  for (const ModelServicePort& port : Of(flow.source.v6).ports) {
    if (port.protocol != flow.protocol || (port.IsRange() && !settings_.port_ranges)) continue;
    for (const ModelEndpoint& reachable : port.ReachableSet()) {
      const bool same =
          reachable.ip == endpoint.ip && (port.IsRange() || reachable.port == endpoint.port);
      if (reachable.local && same) return true;
    }
  }
  return false;
}

Prediction ReferenceModel::Delivered(const ModelServicePort& port, const Flow& flow,
                                     const ModelEndpoints& set, bool masquerade,
                                     const std::string& why) const {
  Prediction prediction;
  prediction.verdict = Verdict::kDelivered;
  prediction.service_port = port.ToString();
  prediction.affinity = port.affinity;
  prediction.range = port.IsRange();
  prediction.pick = port.pick;
  prediction.table = std::to_string(port.table_size);
  prediction.why = why;
  for (ModelEndpoint endpoint : set) {
    if (port.IsRange()) endpoint.port = flow.port;
    prediction.table += " " + endpoint.ToString() + "*" + std::to_string(endpoint.weight);
    prediction.choices.push_back({endpoint.ip.ToString(), endpoint.port,
                                  masquerade || flow.marked || IsHairpin(flow, endpoint)});
  }
  return prediction;
}

Prediction ReferenceModel::ToClusterIp(const ModelServicePort& port, const Flow& flow) const {
  if (!port.HasEndpoints()) return Rejected(Verdict::kRejected, &port, "S-77");
  const ModelEndpoints set = port.internal_local ? port.LocalSet() : port.ClusterSet();
  if (set.empty()) return Rejected(Verdict::kDropped, &port, "S-76");
  return Delivered(port, flow, set, false, port.internal_local ? "S-75" : "S-74");
}

Prediction ReferenceModel::ToExternal(const ModelServicePort& port, const Flow& flow) const {
  if (!port.HasEndpoints()) return Rejected(Verdict::kRejected, &port, "S-81");
  if (!port.external_local) return Delivered(port, flow, port.ClusterSet(), true, "S-78");
  const std::string row = port.LocalSet().empty() ? "S-80" : "S-79";
  // S-73: the check for pods comes first.
  if (flow.from_pod) return Delivered(port, flow, port.ClusterSet(), false, row + " P");
  if (flow.from_node) return Delivered(port, flow, port.ClusterSet(), true, row + " N");
  if (port.LocalSet().empty()) return Rejected(Verdict::kDropped, &port, row + " E");
  return Delivered(port, flow, port.LocalSet(), false, row + " E");
}

// Implements requirements S-82 to S-86, S-88 and S-104.
Prediction ReferenceModel::WithoutOwner(const Flow& flow) const {
  const World& world = Of(flow.destination.v6);
  const bool forwarded = node_addresses_.count(flow.destination) == 0;
  if (flow.from_host || forwarded) {
    if (world.cluster_ips.count(flow.destination) > 0) {
      return Rejected(Verdict::kRejected, nullptr, "S-82");
    }
    for (const TextPrefix& cidr : world.service_cidrs) {
      if (cidr.Contains(flow.destination)) return Rejected(Verdict::kDropped, nullptr, "S-83");
    }
  }
  return Rejected(Verdict::kUntouched, nullptr, "S-84 to S-86, S-88");
}

std::optional<ReferenceModel::Flow> ReferenceModel::FlowOf(const Packet& packet) const {
  const auto source = TextAddress::Parse(packet.source);
  const auto destination = TextAddress::Parse(packet.destination);
  if (!source || !destination || source->v6 != destination->v6) return std::nullopt;
  Flow flow;
  flow.source = *source;
  flow.destination = *destination;
  flow.protocol = packet.protocol;
  flow.port = packet.port;
  flow.from_host = packet.interface.empty();
  flow.from_pod = IsPod(packet, *source);
  flow.from_node = node_addresses_.count(*source) > 0;  // S-72
  // Implements requirements S-74, S-75, S-90 and S-91.
  flow.marked = Of(source->v6).cluster_ips.count(*destination) > 0 &&
                (settings_.masquerade_all || (DetectorPresent(source->v6) && !flow.from_pod));
  return flow;
}

Prediction ReferenceModel::ToAddress(const ModelServicePort& port, const Flow& flow) const {
  if (Contains(port.load_balancer_ips, flow.destination) && !SourceAllowed(port, flow.source)) {
    return Rejected(Verdict::kDropped, &port, "S-87, S-116");
  }
  Prediction prediction =
      port.cluster_ip == flow.destination ? ToClusterIp(port, flow) : ToExternal(port, flow);
  if (port.IsRange()) prediction.why += " range";
  return prediction;
}

// Applies the rules in the order that requirement S-94 defines. Port ranges follow nodePorts.
Prediction ReferenceModel::Predict(const Packet& packet) const {
  const std::optional<Flow> parsed = FlowOf(packet);
  if (!parsed) return Rejected(Verdict::kUntouched, nullptr, "not a packet");
  const Flow& flow = *parsed;
  const ModelServicePort* owner = OwnerOfAddress(flow);
  if (owner != nullptr && !owner->IsRouted(flow.destination)) return ToAddress(*owner, flow);
  // An owner takes precedence over nodePorts even if its packets are routed.
  const ModelServicePort* node_port = owner == nullptr ? OwnerOfNodePort(flow) : nullptr;
  if (node_port != nullptr) return ToExternal(*node_port, flow);
  const ModelServicePort* range = OwnerOfRange(flow);
  if (range != nullptr && !range->IsRouted(flow.destination)) return ToAddress(*range, flow);
  return WithoutOwner(flow);
}

// Load balancer IPs answer only if all sources may connect. An external address does not answer if
// the packets to all ports are routed.
bool ReferenceModel::AnswersPing(const TextAddress& address) const {
  for (const ModelServicePort& port : Of(address.v6).ports) {
    const bool programmed = !port.IsRange() || settings_.port_ranges;
    if (programmed ? port.IsRouted(address) : port.MayBeRouted(address)) continue;
    if (port.cluster_ip == address || Contains(port.external_ips, address)) return true;
    if (port.ranges.empty() && Contains(port.load_balancer_ips, address)) return true;
  }
  return false;
}

Outcome ReferenceModel::PredictPing(const Packet& packet) const {
  const std::optional<Flow> flow = FlowOf(packet);
  if (!flow) return Outcome::kOther;
  if (node_addresses_.count(flow->destination) > 0) return Outcome::kAnswered;
  if (settings_.answer_ping && AnswersPing(flow->destination)) return Outcome::kAnswered;
  const bool rejected = WithoutOwner(*flow).verdict == Verdict::kRejected;
  return rejected ? Outcome::kRejected : Outcome::kTimedOut;
}

bool ReferenceModel::HidesAnother(const Packet& packet) const {
  const std::optional<Flow> flow = FlowOf(packet);
  const ModelServicePort* owner = flow ? OwnerOfAddress(*flow) : nullptr;
  if (owner == nullptr) return false;
  for (const ModelServicePort* other : {OwnerOfNodePort(*flow), OwnerOfRange(*flow)}) {
    if (other != nullptr && other->service != owner->service) return true;
  }
  return false;
}

bool ReferenceModel::ResetsStaleTcp(const v1::Service& service) const {
  return service.spec().has_reset_stale_tcp() ? service.spec().reset_stale_tcp()
                                              : settings_.reset_stale_tcp;
}

}  // namespace svcmap::testing
