#include "proxy/explain/explain.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proxy/desired/node_rows.h"
#include "proxy/desired/weights.h"
#include "proxy/explain/destination.h"
#include "proxy/explain/sources.h"
#include "proxy/names/kube_names.h"

namespace svcmap::proxy {
namespace {

std::string Text(const std::vector<IpPrefix>& prefixes) {
  std::string text;
  for (const IpPrefix& prefix : prefixes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", prefix.ToString());
  }
  return text;
}

bool Overlap(const IpPrefix& a, const IpPrefix& b) {
  return a.Contains(b.address()) || b.Contains(a.address());
}

// One source, one destination, step by step in the order of S-94.
class Walk {
 public:
  Walk(const ExplainContext& context, const Destination& to, const Source& from)
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
    if (!to_.known()) return NobodysPort();
    if (!PassesFirewall()) return End(Verdict::kDrop);
    MarkForClusterIp();
    Say("service",
        absl::StrCat(RoleName(to_.role), " of ", to_.Name(),
                     to_.role == Role::kNodePort
                         ? ", accepted at this address; no Service has address and port itself"
                         : ""),
        "S-94");
    if (!ChooseSet()) return;
    DescribeSet();
    DescribeAffinity();
    AddEndpoints();
    DescribeHairpin();
    if (to_.chained) {
      Say("filter",
          absl::StrCat("endpoint ", to_.chained->ToString(),
                       " is a clusterIP itself: what is sent to it is rejected after all"),
          "S-98");
    }
    End(Verdict::kDnat);
  }

  void Say(const char* what, std::string text, std::string rules) {
    result_.steps.push_back({what, std::move(text), std::move(rules)});
  }

  void End(Verdict verdict) { result_.verdict = verdict; }

  // S-116..S-120. Where the source is not known, the walk goes on for those that may pass.
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
      Say("firewall", "no loadBalancerSourceRanges of this family: everybody may pass",
          "S-11, S-12");
      return true;
    }
    result_.kube_chains.push_back("KUBE-FW-" + Hash());
    const std::string listed = "loadBalancerSourceRanges " + Text(ranges);
    if (from_.address) return AddressPasses(*from_.address, ranges, listed);
    const std::optional<IpPrefix> pods =
        PodBlock(context_.ruleset, context_.this_node, to_.family());
    if (from_.kind == SourceKind::kPod && pods &&
        std::none_of(ranges.begin(), ranges.end(),
                     [&](const IpPrefix& range) { return Overlap(range, *pods); })) {
      Say("firewall", absl::StrCat("no pod is in ", listed, ": dropped before DNAT"),
          "S-116, S-117");
      return false;
    }
    Say("firewall", absl::StrCat("only sources in ", listed, " may pass, the others are dropped"),
        "S-116, S-117");
    return true;
  }

  bool AddressPasses(const IpAddress& source, const std::vector<IpPrefix>& ranges,
                     const std::string& listed) {
    const auto in_ranges = [&](const IpAddress& address) {
      return std::any_of(ranges.begin(), ranges.end(),
                         [&](const IpPrefix& range) { return range.Contains(address); });
    };
    if (in_ranges(source)) {
      Say("firewall", absl::StrCat(source.ToString(), " is in ", listed), "S-116, S-121");
      return true;
    }
    const IpAddress& node_ip = context_.node.own_ip[Index(to_.family())];
    if (absl::c_linear_search(to_.service().load_balancer_ips, source) && in_ranges(node_ip)) {
      Say("firewall",
          absl::StrCat(source.ToString(), " is a load balancer IP of the Service, and this node, ",
                       node_ip.ToString(), ", is in ", listed),
          "S-118");
      return true;
    }
    Say("firewall", absl::StrCat(source.ToString(), " is not in ", listed, ": dropped before DNAT"),
        "S-116, S-117");
    return false;
  }

  // The mark goes by the address alone, as the rule does.
  void MarkForClusterIp() {
    if (to_.cluster_ip_of.empty()) return;
    if (context_.ruleset.masquerade_all) {
      masquerade_ = true;
      return Say("masquerade", "masqueradeAll: whoever calls a clusterIP is masqueraded", "S-90");
    }
    if (!RecognisesPods(context_, to_.family())) {
      return Say("masquerade", "pods are not recognised, so nobody is masqueraded for a clusterIP",
                 "S-71, S-91");
    }
    masquerade_ = from_.kind != SourceKind::kPod;
    Say("masquerade",
        masquerade_ ? "not a pod, so the call to a clusterIP is masqueraded"
                    : "a pod that calls a clusterIP keeps its address",
        "S-74, S-75");
  }

  // False: the verdict has fallen.
  bool ChooseSet() {
    if (const uint32_t drained = to_.resolved.drained; drained > 0) {
      Say("endpoints",
          absl::StrCat(drained, drained == 1 ? " endpoint is" : " endpoints are",
                       " drained (weight 0): no new connections"),
          "");
    }
    return to_.role == Role::kClusterIp ? ChooseInternalSet() : ChooseExternalSet();
  }

  bool ChooseInternalSet() {
    const ResolvedEndpoints& endpoints = to_.resolved;
    if (!endpoints.any) return Reject("S-77");
    if (to_.service().internal_policy == TrafficPolicy::kCluster) {
      Say("policy", "internalTrafficPolicy Cluster: the cluster set", "S-37, S-74");
      result_.set = ChosenSet::kCluster;
      return true;
    }
    if (endpoints.local.empty()) {
      return Drop("internalTrafficPolicy Local, and no usable endpoint is on this node", "S-76");
    }
    Say("policy", "internalTrafficPolicy Local: the local set", "S-37, S-75");
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
      Say("policy", "externalTrafficPolicy Cluster: the cluster set, masqueraded", "S-37, S-78");
      return true;
    }
    const std::string row = endpoints.local.empty() ? "S-80" : "S-79";
    if (from_.kind == SourceKind::kPod) {
      Say("policy",
          "externalTrafficPolicy Local, short-circuit: a pod gets the cluster set and keeps its "
          "address",
          row + ", S-73");
      return true;
    }
    if (from_.kind == SourceKind::kNode) {
      masquerade_ = true;
      Say("policy",
          "externalTrafficPolicy Local, short-circuit: this node gets the cluster set, masqueraded",
          row);
      return true;
    }
    if (endpoints.local.empty()) {
      return Drop("externalTrafficPolicy Local, and no usable endpoint is on this node", row);
    }
    Say("policy", "externalTrafficPolicy Local: the local set", row);
    result_.set = ChosenSet::kLocal;
    return true;
  }

  bool Reject(const char* row) {
    Say("filter", "no usable endpoint anywhere: rejected with port unreachable",
        std::string(row) + ", S-100, S-102");
    End(Verdict::kReject);
    return false;
  }

  bool Drop(std::string why, const std::string& row) {
    result_.set = ChosenSet::kNone;
    Say("policy", std::move(why) + ": dropped", row);
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
      Say("endpoints",
          to_.resolved.any_ready_here
              ? "those on this node that are ready; topology hints do not count here"
              : "none on this node is ready: those that terminate and still serve",
          "S-34");
    } else if (!to_.resolved.any_ready) {
      Say("endpoints", "none is ready anywhere: all that terminate and still serve", "S-33");
    } else if (to_.resolved.topology == TopologyMode::kSameNode) {
      Say("endpoints", "topology mode same-node: those hinted for node " + context_.node.place.name,
          "S-32, S-33");
    } else if (to_.resolved.topology == TopologyMode::kSameZone) {
      Say("endpoints", "topology mode same-zone: those hinted for zone " + context_.node.place.zone,
          "S-32, S-33");
    } else {
      Say("endpoints", "topology mode none: all that are ready", "S-32, S-33");
    }
  }

  void DescribeAffinity() {
    if (to_.service().affinity_seconds == 0) return;
    Say("affinity",
        absl::StrCat("a client keeps its endpoint for ", to_.service().affinity_seconds,
                     " s after its last new connection, while that is in the set"),
        "S-122..S-124");
  }

  void AddEndpoints() {
    result_.kube_chains.push_back((result_.set == ChosenSet::kLocal ? "KUBE-SVL-" : "KUBE-SVC-") +
                                  Hash());
    const auto& here = to_.resolved.reachable_here;
    const std::vector<uint32_t> slots = SlotCounts(ChosenWeights());
    for (size_t i = 0; i < Chosen().size(); ++i) {
      const EndpointAddress& address = Chosen()[i];
      ExplainedEndpoint endpoint{address};
      if (!slots.empty()) endpoint.slots = slots[i];
      endpoint.local = std::binary_search(here.begin(), here.end(), address);
      endpoint.masquerade = masquerade_ || (endpoint.local && from_.address == address.ip);
      endpoint.kube_sep =
          "KUBE-SEP-" + KubeEndpointHash(to_.service().key, to_.port->name, to_.protocol, address);
      result_.endpoints.push_back(std::move(endpoint));
    }
  }

  void DescribeHairpin() {
    if (masquerade_) return;
    const auto& endpoints = result_.endpoints;
    if (std::any_of(endpoints.begin(), endpoints.end(),
                    [](const ExplainedEndpoint& endpoint) { return endpoint.masquerade; })) {
      Say("hairpin", "the client is an endpoint itself: masqueraded where it reaches itself",
          "S-97");
    } else if (!from_.address &&
               std::any_of(endpoints.begin(), endpoints.end(),
                           [](const ExplainedEndpoint& endpoint) { return endpoint.local; })) {
      Say("hairpin", "an endpoint of this node that reaches itself is masqueraded", "S-97");
    }
  }

  // S-82..S-86, S-113. The checks sit in forward and output: a packet from elsewhere to an address
  // of this node passes neither (S-104).
  void NobodysPort() {
    const bool checked = from_.from_process || !to_.local;
    const std::string address = to_.address.ToString();
    if (!to_.cluster_ip_of.empty()) {
      Say("service", absl::StrCat("clusterIP of ", to_.cluster_ip_of, ", which has no such port"),
          "S-82");
      if (!checked) return NotChecked();
      Say("filter", "rejected with port unreachable, in forward or output", "S-82, S-104");
      return End(Verdict::kReject);
    }
    if (to_.service_cidr != nullptr) {
      Say("service",
          absl::StrCat("in ServiceCIDR ", to_.service_cidr->ToString(), ", and no clusterIP"),
          "S-83");
      if (!checked) return NotChecked();
      Say("filter", "dropped, in forward or output", "S-83, S-104");
      return End(Verdict::kDrop);
    }
    if (!to_.listed_by.empty()) {
      return Say("service",
                 absl::StrCat("address of ", to_.listed_by, ", which has no such port: left alone"),
                 "S-84");
    }
    if (absl::c_linear_search(context_.node.node_port_addresses, to_.address)) {
      return Say("service", "accepts nodePorts, and this is none: left alone", "S-85");
    }
    const Service* node_port =
        context_.store.claims().Owner(NodePortClaim(to_.family(), to_.protocol, to_.number));
    if (node_port != nullptr && to_.local) {
      return Say("service",
                 absl::StrCat("nodePort of ", node_port->key,
                              ", and nodePorts are not accepted at this address: left alone"),
                 to_.address.IsLoopback() ? "S-113" : "S-86");
    }
    Say("service", "no Service has this address: left alone", "");
  }

  void NotChecked() {
    Say("filter",
        "left alone: an address of this node, and what comes in for it passes neither forward nor "
        "output",
        "S-104");
  }

  std::string Hash() const {
    return KubeServiceHash(to_.service().key, to_.port->name, to_.protocol);
  }

  const ExplainContext& context_;
  const Destination& to_;
  const Source& from_;
  Explanation result_;
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
    explained.cases.push_back(Walk(context, to, source).Run());
  }
  return explained;
}

}  // namespace svcmap::proxy
