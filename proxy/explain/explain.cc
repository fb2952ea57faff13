#include "proxy/explain/explain.h"

#include <algorithm>
#include <functional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/desired/node_rows.h"
#include "proxy/desired/slots.h"
#include "proxy/explain/destination.h"
#include "proxy/explain/sources.h"
#include "proxy/names/kube_names.h"
#include "proxy/node/node_findings.h"

namespace svcmap::proxy {
namespace {

constexpr const char* kRoleNames[] = {"clusterIP", "external IP", "load balancer IP", "nodePort"};

// Explains one source and one destination, step by step in the order of S-94.
class PathTracer {
 public:
  PathTracer(const ExplainContext& context, const Destination& to, const Source& from)
      : context_(context), to_(to), from_(from) {}

  Explanation Run() {
    result_.kind = from_.kind;
    result_.source = from_.name;
    result_.steps.push_back(from_.step);
    Decide();
    return std::move(result_);
  }

 private:
  void Decide() {
    if (!to_.known()) return UnknownPort();
    AddFindings(to_.service().key);
    if (to_.role == Role::kNodePort) AddNodePortFindings();
    if (to_.localhost) return Localhost();
    if (IsRouted()) return;
    if (!PassesFirewall()) return End(Verdict::kDrop);
    MarkForClusterIp();
    AddStep(
        "service",
        absl::StrCat(kRoleNames[static_cast<size_t>(to_.role)], " of ", to_.Name(),
                     to_.role == Role::kNodePort
                         ? "; this address accepts nodePorts, and no Service uses the same address "
                           "and port"
                         : ""),
        "S-94");
    if (to_.port->is_range()) {
      AddStep("range",
              absl::StrCat("the port is in the range ", to_.port->RangeText(),
                           "; connections keep their destination port"),
              "");
    }
    if (!ChooseSet()) return;
    DescribeSet();
    DescribeAffinity();
    if (!to_.port->is_range()) DescribeResets();
    MakeTable();
    result_.kube_chains.push_back((result_.set == ChosenSet::kLocal ? "KUBE-SVL-" : "KUBE-SVC-") +
                                  Hash());
    AddEndpoints();
    DescribeHairpin();
    if (to_.chained) {
      AddStep("filter",
              absl::StrCat("endpoint ", to_.chained->ToString(),
                           " is itself a clusterIP: packets to this endpoint are rejected"),
              "S-98");
    }
    End(Verdict::kDnat);
  }

  void AddStep(const char* what, std::string text, std::string rules) {
    result_.steps.push_back({what, std::move(text), std::move(rules)});
  }

  void End(Verdict verdict) { result_.verdict = verdict; }

  // Adds the findings of a Service for which `concerns` is true. With an empty key, adds findings
  // of the node.
  void AddFindings(
      const std::string& service,
      const std::function<bool(const Finding&)>& concerns = [](const Finding&) { return true; }) {
    constexpr size_t kMaxSteps = 3;
    size_t count = 0;
    for (const Finding& finding : context_.findings.Of(service)) {
      if (concerns(finding) && ++count <= kMaxSteps) AddStep("finding", finding.ToString(), "");
    }
    if (count > kMaxSteps) {
      AddStep("finding", absl::StrCat(count - kMaxSteps, " more, see svcmapctl status"), "");
    }
  }

  void AddNodePortFindings() {
    AddFindings("", [](const Finding& finding) { return finding.kind == Kind::kNode; });
    const Service* checked =
        context_.store.claims().Owner(HealthCheckClaim(to_.family(), to_.number));
    if (to_.protocol != Protocol::kTcp || checked == nullptr) return;
    AddFindings(checked->key,
                [](const Finding& finding) { return finding.field == "spec.healthCheckNodePort"; });
  }

  // Returns true if the address is not programmed, because no endpoint is on this node.
  bool IsRouted() {
    if (!to_.service().route_without_local || !to_.resolved.local.empty() ||
        to_.service().external_policy != TrafficPolicy::kLocal || to_.role == Role::kClusterIp ||
        to_.role == Role::kNodePort) {
      return false;
    }
    AddStep("policy",
            "externalTrafficPolicy Local and no usable endpoint on this node, and the annotation "
            "svcmap/no-local-endpoint is \"route\": not modified, the kernel routes the packet",
            "");
    AddClusterIpsCheck();
    return true;
  }

  // Checks loadBalancerSourceRanges (S-116..S-120). If the source address is unknown, the
  // explanation continues with the allowed sources.
  bool PassesFirewall() {
    if (!absl::c_linear_search(to_.service().load_balancer_ips, to_.address) ||
        to_.role == Role::kNodePort) {
      return true;
    }
    std::vector<IpPrefix> ranges;
    for (const IpPrefix& range : to_.service().source_ranges) {
      if (range.family() == to_.family()) ranges.push_back(range);
    }
    if (ranges.empty()) {
      AddStep("firewall", "no loadBalancerSourceRanges in this IP family: all sources are allowed",
              "S-11, S-12");
      return true;
    }
    result_.kube_chains.push_back("KUBE-FW-" + Hash());
    const std::string listed =
        "loadBalancerSourceRanges " + absl::StrJoin(ranges, ", ", [](std::string* to, auto& range) {
          to->append(range.ToString());
        });
    if (from_.address) return AddressPasses(*from_.address, ranges, listed);
    const std::optional<IpPrefix> pods =
        PodBlock(context_.ruleset, context_.this_node, to_.family());
    if (from_.kind == SourceKind::kPod && pods &&
        absl::c_none_of(ranges, [&](const IpPrefix& range) { return Overlap(range, *pods); })) {
      AddStep("firewall", absl::StrCat("no pod address is in ", listed, ": dropped before DNAT"),
              "S-116, S-117");
      return false;
    }
    AddStep("firewall",
            absl::StrCat("only sources in ", listed, " are allowed, all other sources are dropped"),
            "S-116, S-117");
    return true;
  }

  bool AddressPasses(const IpAddress& source, const std::vector<IpPrefix>& ranges,
                     const std::string& listed) {
    const auto in_ranges = [&](const IpAddress& address) {
      return absl::c_any_of(ranges, [&](const IpPrefix& r) { return r.Contains(address); });
    };
    if (in_ranges(source)) {
      AddStep("firewall", absl::StrCat(source.ToString(), " is in ", listed), "S-116, S-121");
      return true;
    }
    const IpAddress& node_ip = context_.node.own_ip[Index(to_.family())];
    if (absl::c_linear_search(to_.service().load_balancer_ips, source) && in_ranges(node_ip)) {
      AddStep(
          "firewall",
          absl::StrCat(source.ToString(), " is a load balancer IP of the Service, and the node IP ",
                       node_ip.ToString(), " is in ", listed),
          "S-118");
      return true;
    }
    AddStep("firewall",
            absl::StrCat(source.ToString(), " is not in ", listed, ": dropped before DNAT"),
            "S-116, S-117");
    return false;
  }

  // The masquerade rule for clusterIPs matches only the destination address, not the port.
  void MarkForClusterIp() {
    if (to_.cluster_ip_of.empty()) return;
    if (context_.ruleset.masquerade_all) {
      masquerade_ = true;
      return AddStep("masquerade",
                     "masqueradeAll is set: all connections to a clusterIP are "
                     "masqueraded",
                     "S-90");
    }
    if (!RecognisesPods(context_, to_.family())) {
      return AddStep(
          "masquerade",
          "the agent cannot detect pods, so connections to a clusterIP are not masqueraded",
          "S-71, S-91");
    }
    masquerade_ = from_.kind != SourceKind::kPod;
    AddStep("masquerade",
            masquerade_ ? "the source is not a pod, so its connection to a clusterIP is masqueraded"
                        : "a pod that connects to a clusterIP keeps its source address",
            "S-74, S-75");
  }

  // Selects the cluster or the local endpoint set. Returns false if the packet is rejected or
  // dropped.
  bool ChooseSet() {
    if (const uint32_t drained = to_.resolved.drained; drained > 0) {
      AddStep("endpoints",
              absl::StrCat(drained,
                           drained == 1 ? " endpoint is drained (weight 0) and receives"
                                        : " endpoints are drained (weight 0) and receive",
                           " no new connections"),
              "");
    }
    return to_.role == Role::kClusterIp ? ChooseInternalSet() : ChooseExternalSet();
  }

  bool ChooseInternalSet() {
    const ResolvedEndpoints& endpoints = to_.resolved;
    if (!endpoints.any) return Reject("S-77");
    if (to_.service().internal_policy == TrafficPolicy::kCluster) {
      AddStep("policy", "internalTrafficPolicy Cluster: endpoints on all nodes", "S-37, S-74");
      result_.set = ChosenSet::kCluster;
      return true;
    }
    if (endpoints.local.empty()) {
      return Drop("internalTrafficPolicy Local and no usable endpoint on this node", "S-76");
    }
    AddStep("policy", "internalTrafficPolicy Local: endpoints on this node", "S-37, S-75");
    result_.set = ChosenSet::kLocal;
    return true;
  }

  bool ChooseExternalSet() {
    const ResolvedEndpoints& endpoints = to_.resolved;
    if (!endpoints.any) return Reject("S-81");
    result_.kube_chains.push_back("KUBE-EXT-" + Hash());
    result_.set = ChosenSet::kCluster;
    if (to_.service().external_policy == TrafficPolicy::kCluster) {
      masquerade_ = true;
      AddStep("policy", "externalTrafficPolicy Cluster: endpoints on all nodes, masqueraded",
              "S-37, S-78");
      return true;
    }
    const std::string row = endpoints.local.empty() ? "S-80" : "S-79";
    if (from_.kind == SourceKind::kPod) {
      AddStep(
          "policy",
          "externalTrafficPolicy Local, but pods use endpoints on all nodes and keep their source "
          "address",
          row + ", S-73");
      return true;
    }
    if (from_.kind == SourceKind::kNode) {
      masquerade_ = true;
      AddStep("policy",
              "externalTrafficPolicy Local, but connections from this node use endpoints on all "
              "nodes and are masqueraded",
              row);
      return true;
    }
    if (endpoints.local.empty()) {
      return Drop("externalTrafficPolicy Local and no usable endpoint on this node", row);
    }
    AddStep("policy", "externalTrafficPolicy Local: endpoints on this node", row);
    result_.set = ChosenSet::kLocal;
    return true;
  }

  bool Reject(const char* row) {
    if (!to_.without_slices.empty()) AddStep("slices", to_.without_slices, "S-18, S-28");
    AddStep("filter", "the Service port has no usable endpoint: rejected " + Response(),
            std::string(row) + ", S-100, S-102");
    End(Verdict::kReject);
    return false;
  }

  std::string Response() const {
    return to_.protocol == Protocol::kTcp ? "with a TCP reset" : "with ICMP port unreachable";
  }

  bool Drop(std::string why, const std::string& row) {
    result_.set = ChosenSet::kNone;
    AddStep("policy", std::move(why) + ": dropped", row);
    End(Verdict::kDrop);
    return false;
  }

  const std::vector<EndpointAddress>& Chosen() const {
    return result_.set == ChosenSet::kLocal ? to_.resolved.local : to_.resolved.cluster;
  }
  const std::vector<uint16_t>& ChosenWeights() const {
    return result_.set == ChosenSet::kLocal ? to_.resolved.local_weights
                                            : to_.resolved.cluster_weights;
  }

  void DescribeSet() {
    if (result_.set == ChosenSet::kLocal) {
      AddStep(
          "endpoints",
          to_.resolved.any_ready_here
              ? "ready endpoints on this node; topology hints do not apply"
              : "no endpoint on this node is ready: terminating endpoints that are still serving",
          "S-34");
    } else if (!to_.resolved.any_ready) {
      AddStep("endpoints", "no endpoint is ready: all terminating endpoints that are still serving",
              "S-33");
    } else if (to_.resolved.topology == TopologyMode::kSameNode) {
      AddStep("endpoints", "topology hints: endpoints for node " + context_.node.place.name,
              "S-32, S-33");
    } else if (to_.resolved.topology == TopologyMode::kSameZone) {
      AddStep("endpoints", "topology hints: endpoints for zone " + context_.node.place.zone,
              "S-32, S-33");
    } else {
      AddStep("endpoints", "all ready endpoints; topology hints do not apply", "S-32, S-33");
    }
  }

  void DescribeAffinity() {
    if (to_.service().affinity_seconds == 0) return;
    AddStep("affinity",
            absl::StrCat("a client keeps its endpoint for ", to_.service().affinity_seconds,
                         " s after its last new connection, if the endpoint is still usable"),
            "S-122..S-124");
  }

  void DescribeResets() {
    if (to_.protocol != Protocol::kTcp || context_.node.tcp_resets == TcpResets::kOff) return;
    const bool resets = to_.service().reset_stale_tcp.value_or(context_.node.reset_stale_tcp);
    AddStep("resets",
            resets ? "a connection is reset if its endpoint has left the EndpointSlices for 1 s"
                   : "a connection is not reset if its endpoint leaves the EndpointSlices",
            "");
  }

  // Makes the hash table of the endpoint set, if the Service uses one.
  void MakeTable() {
    const PickBy pick_by = to_.service().pick_by;
    const size_t endpoints = std::max(to_.resolved.cluster.size(), to_.resolved.local.size());
    if (pick_by == PickBy::kRandom || !context_.node.hash_picks ||
        endpoints > kMaxHashedEndpoints) {
      return;
    }
    const uint32_t slots = PickTableSize(to_.service(), Chosen().size());
    std::vector<EndpointAddress> slot_endpoints = Chosen();
    // The tables of ranges contain addresses without ports.
    const auto set_ports = [&](uint16_t number) {
      if (!to_.port->is_range()) return;
      for (EndpointAddress& endpoint : slot_endpoints) endpoint.port = number;
    };
    set_ports(0);
    slot_endpoints = MakeHashTable(slot_endpoints, ChosenWeights(), slots);
    set_ports(to_.number);
    for (const EndpointAddress& endpoint : slot_endpoints) ++table_slots_[endpoint];
    const std::string table = absl::StrCat(" from a table with ", slots, " slots");
    if (pick_by == PickBy::kClientAndPort) {
      AddStep("pick", "a hash of client address and port selects the endpoint" + table, "");
    } else if (!from_.address) {
      AddStep("pick", "a hash of the client address selects the endpoint" + table, "");
    } else {
      const EndpointAddress& endpoint = slot_endpoints[SlotOfClient(*from_.address, slots)];
      AddStep("pick",
              absl::StrCat("the hash of the client address selects endpoint ",
                           endpoint.ip.ToString(), " port ", endpoint.port, table),
              "");
    }
  }

  void AddEndpoints() {
    const auto& here = to_.resolved.reachable_here;
    const std::vector<uint32_t> slots = SlotCounts(ChosenWeights());
    for (size_t i = 0; i < Chosen().size(); ++i) {
      const EndpointAddress& address = Chosen()[i];
      ExplainedEndpoint endpoint{address};
      if (!slots.empty()) endpoint.slots = slots[i];
      if (!table_slots_.empty()) endpoint.slots = table_slots_[address];
      endpoint.local = std::binary_search(here.begin(), here.end(), address);
      endpoint.masquerade = masquerade_ || (endpoint.local && from_.address == address.ip);
      endpoint.kube_sep =
          "KUBE-SEP-" + KubeEndpointHash(to_.service().key, to_.port->name, to_.protocol, address);
      result_.endpoints.push_back(std::move(endpoint));
    }
  }

  void DescribeHairpin() {
    if (masquerade_) return;
    if (absl::c_any_of(result_.endpoints, std::mem_fn(&ExplainedEndpoint::masquerade))) {
      AddStep("hairpin",
              "the client is itself an endpoint: masqueraded if this endpoint is selected", "S-97");
    } else if (!from_.address &&
               absl::c_any_of(result_.endpoints, std::mem_fn(&ExplainedEndpoint::local))) {
      AddStep("hairpin", "an endpoint on this node that connects to itself is masqueraded", "S-97");
    }
  }

  // Explains a nodePort on a loopback address: svcmapd accepts and forwards the connection.
  void Localhost() {
    const bool local = to_.service().external_policy == TrafficPolicy::kLocal;
    result_.set = local ? ChosenSet::kLocal : ChosenSet::kCluster;
    masquerade_ = true;
    AddStep("localhost",
            absl::StrCat("nodePort of ", to_.service().key,
                         Chosen().empty()
                             ? " without endpoints: svcmapd resets connections"
                             : ": svcmapd accepts the connection and forwards it to an endpoint"),
            "S-113");
    AddEndpoints();
  }

  // Explains a packet without translation to a clusterIP or to another address of a ServiceCIDR.
  // Returns false for other addresses. The filter chains are attached to the hooks forward and
  // output. A packet from another host to an address of this node does not traverse these hooks
  // (S-104).
  bool AddClusterIpsCheck() {
    const bool assigned = !to_.cluster_ip_of.empty();
    if (assigned) {
      AddStep("service",
              absl::StrCat("clusterIP of ", to_.cluster_ip_of, ", which does not have this port"),
              "S-82");
      AddFindings(to_.cluster_ip_of);
    } else if (to_.service_cidr != nullptr) {
      AddStep("service",
              absl::StrCat("in ServiceCIDR ", to_.service_cidr->ToString(),
                           ", but not the clusterIP of a Service"),
              "S-83");
      AddFindings("", [&](const Finding& finding) {
        return finding.kind == Kind::kServiceCidr && finding.value == to_.service_cidr->ToString();
      });
    } else {
      return false;
    }
    if (!from_.from_process && to_.local) {
      AddStep("filter",
              "not modified: packets that arrive for an address of this node pass neither the "
              "forward nor the output hook",
              "S-104");
    } else if (assigned) {
      AddStep("filter", "rejected " + Response() + " in the forward or output hook",
              "S-82, S-100, S-104");
      End(Verdict::kReject);
    } else {
      AddStep("filter", "dropped in the forward or output hook", "S-83, S-104");
      End(Verdict::kDrop);
    }
    return true;
  }

  // Explains a destination without a Service port (S-82..S-86, S-113).
  void UnknownPort() {
    if (!to_.unused_range.empty()) {
      AddStep("range",
              absl::StrCat("port range ", to_.unused_range,
                           ": not programmed, because svcmapd runs without --port-ranges"),
              "");
    }
    if (AddClusterIpsCheck()) return;
    if (!to_.listed_by.empty()) {
      return AddStep("service",
                     absl::StrCat("address of ", to_.listed_by,
                                  ", which does not have this port: not modified"),
                     "S-84");
    }
    if (absl::c_linear_search(context_.node.node_port_addresses, to_.address)) {
      return AddStep("service",
                     "the address accepts nodePorts, but the port is not a nodePort: not modified",
                     "S-85");
    }
    const Service* node_port =
        context_.store.claims().Owner(NodePortClaim(to_.family(), to_.protocol, to_.number));
    const Node* node = context_.this_node;
    const bool of_node = node != nullptr && absl::c_linear_search(node->addresses, to_.address);
    if (node_port != nullptr && (to_.local || of_node)) {
      AddNodePortFindings();
      return AddStep("service",
                     absl::StrCat("nodePort of ", node_port->key,
                                  ", but the address does not accept nodePorts: not modified"),
                     to_.address.IsLoopback() ? "S-113" : "S-86");
    }
    AddStep("service", "no Service has this address: not modified", "");
  }

  std::string Hash() const {
    return KubeServiceHash(to_.service().key, to_.port->name, to_.protocol);
  }

  const ExplainContext& context_;
  const Destination& to_;
  const Source& from_;
  Explanation result_;
  // Number of slots per endpoint. Empty if endpoints are picked at random.
  absl::flat_hash_map<EndpointAddress, uint32_t> table_slots_;
  bool masquerade_ = false;
};

}  // namespace

Explained Explain(const ExplainContext& context, const Question& question) {
  const Destination to = FindDestination(context, question);
  Explained explained{.cluster_ip = !to.cluster_ip_of.empty()};
  if (to.known()) {
    explained.service_key = to.service().key;
    explained.port = *to.port;
  }
  for (const Source& source : SourcesOf(context, question)) {
    explained.cases.push_back(PathTracer(context, to, source).Run());
  }
  return explained;
}

}  // namespace svcmap::proxy
