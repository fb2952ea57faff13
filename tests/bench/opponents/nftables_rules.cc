#include "tests/bench/opponents/nftables_rules.h"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/kube_nftables_names.h"

namespace svcmap::bench {
namespace {

// Statement that marks packets for masquerading.
constexpr char kNftSetMark[] = "mark set mark or 0x00004000";

struct NftWords {  // nft keywords that differ between IPv4 and IPv6.
  const char* family;
  const char* address_type;
};

NftWords NftWordsOf(Family family) {
  return family == Family::kIpv4 ? NftWords{"ip", "ipv4_addr"} : NftWords{"ip6", "ipv6_addr"};
}

// An element of a named set or map. Elements are compared by all members. A set or map cannot
// contain two elements with equal place().
struct NftElement {
  std::string container, key;
  std::string verdict = {};  // Verdict of a map element. Empty for an element of a set.
  std::string comment = {};

  std::pair<std::string, std::string> place() const { return {container, key}; }
  friend auto operator<=>(const NftElement&, const NftElement&) = default;
};

// The commands of one transaction.
class NftText {
 public:
  explicit NftText(Family family) : words_(NftWordsOf(family)) {}

  void Add(const std::string& what, const std::string& name, const std::string& rest = "") {
    Append("add", what, name, rest);
  }
  void Flush(const std::string& what, const std::string& name) { Append("flush", what, name, ""); }
  void Delete(const std::string& what, const std::string& name, const std::string& rest = "") {
    Append("delete", what, name, rest);
  }

  void Refill(const std::string& chain) {
    Add("chain", chain);
    Flush("chain", chain);
  }
  // Appends a rule to the chain. `comment` may be empty.
  void Rule(const std::string& chain, const std::string& rule, const std::string& comment = "") {
    Add("rule", chain, comment.empty() ? rule : absl::StrCat(rule, " comment \"", comment, "\""));
  }
  void Add(const NftElement& element) {
    Add("element", element.container,
        absl::StrCat(
            "{ ", element.key,
            element.comment.empty() ? "" : absl::StrCat(" comment \"", element.comment, "\""),
            element.verdict.empty() ? "" : " : ", element.verdict, " }"));
  }
  void Delete(const NftElement& element) {
    Delete("element", element.container, absl::StrCat("{ ", element.key, " }"));
  }

  std::string Take() { return std::move(text_); }

 private:
  void Append(const char* verb, const std::string& what, const std::string& name,
              const std::string& rest) {
    absl::StrAppend(&text_, verb, " ", what, " ", words_.family, " kube-proxy ", name,
                    rest.empty() ? "" : " ", rest, "\n");
  }

  NftWords words_;
  std::string text_;
};

void WriteBaseChains(NftText& text, bool first) {
  const std::pair<const char*, const char*> chains[] = {
      {"filter-prerouting-pre-dnat", "{ type filter hook prerouting priority -110 ; }"},
      {"filter-output-pre-dnat", "{ type filter hook output priority -110 ; }"},
      {"filter-input", "{ type filter hook input priority 0 ; }"},
      {"filter-forward", "{ type filter hook forward priority 0 ; }"},
      {"filter-output", "{ type filter hook output priority 0 ; }"},
      {"nat-prerouting", "{ type nat hook prerouting priority -100 ; }"},
      {"nat-output", "{ type nat hook output priority -100 ; }"},
      {"nat-postrouting", "{ type nat hook postrouting priority 100 ; }"},
  };
  for (const auto& [name, unused] : chains) {
    if (!first) break;
    // Delete the chain, because an existing chain may have other properties. Add the chain before
    // the deletion, because deleting a missing chain is an error.
    text.Add("chain", name);
    text.Delete("chain", name);
  }
  for (const auto& [name, properties] : chains) {
    text.Add("chain", name, properties);
    text.Flush("chain", name);
  }
}

void WriteJumps(NftText& text) {
  const std::tuple<const char*, const char*, const char*> jumps[] = {
      {"nodeport-endpoints-check", "filter-input", "ct state new jump "},
      {"service-endpoints-check", "filter-input", "ct state new jump "},
      {"service-endpoints-check", "filter-forward", "ct state new jump "},
      {"service-endpoints-check", "filter-output", "ct state new jump "},
      {"firewall-check", "filter-prerouting-pre-dnat", "ct state new jump "},
      {"firewall-check", "filter-output-pre-dnat", "ct state new jump "},
      {"services", "nat-output", "jump "},
      {"services", "nat-prerouting", "jump "},
      {"masquerading", "nat-postrouting", "jump "},
      {"cluster-ips-check", "filter-forward", "ct state new jump "},
      {"cluster-ips-check", "filter-output", "ct state new jump "},
  };
  std::set<std::string> made;
  for (const auto& [target, from, how] : jumps) {
    if (made.insert(target).second) text.Refill(target);
    text.Rule(from, absl::StrCat(how, target));
  }
}

// Flushes and refills the part of kube-proxy's table that does not depend on Services: sets, maps,
// base chains and the chains to which base chains jump. Adds elements only to the set nodeport-ips.
// If `first` is true, the base chains are recreated, as when kube-proxy starts (S-342).
void WriteNftablesBase(NftText& text, const NftablesNode& node, bool first) {
  const auto [ip, address_type] = NftWordsOf(node.ip.family());
  const std::string address_key = absl::StrCat(address_type, " . inet_proto . inet_service");
  const std::string address = absl::StrCat(ip, " daddr . meta l4proto . th dport vmap @");
  const std::string node_port =
      absl::StrCat(ip, " daddr @nodeport-ips meta l4proto . th dport vmap @");
  const auto add = [&](const char* what, const char* name, const std::string& type,
                       const char* comment) {
    text.Add(what, name, absl::StrCat("{ type ", type, " ; comment \"", comment, "\" ; }"));
  };
  WriteBaseChains(text, first);
  WriteJumps(text);

  add("set", "hairpin-connections", absl::StrCat(address_type, " . ", address_key),
      "service hairpin connections");
  text.Rule("masquerading",
            "mark and 0x00004000 != 0 mark set mark xor 0x00004000 masquerade fully-random");
  text.Rule("masquerading", absl::StrCat("ct status dnat ", ip, " saddr . ", ip,
                                         " daddr . meta l4proto . th dport @hairpin-connections "
                                         "masquerade fully-random"));
  add("set", "cluster-ips", address_type, "Active ClusterIPs");
  text.Rule("cluster-ips-check", absl::StrCat(ip, " daddr @cluster-ips reject"),
            "Reject traffic to invalid ports of ClusterIPs");
  text.Rule("cluster-ips-check",
            absl::StrCat(ip, " daddr { ", node.service_cidr.ToString(), " } drop"),
            "Drop traffic to unallocated ClusterIPs");
  add("set", "nodeport-ips", address_type, "IPs that accept NodePort traffic");
  text.Flush("set", "nodeport-ips");
  text.Add({.container = "nodeport-ips", .key = node.ip.ToString()});
  add("map", "no-endpoint-services", address_key + " : verdict",
      "vmap to drop or reject packets to services with no endpoints");
  add("map", "no-endpoint-nodeports", "inet_proto . inet_service : verdict",
      "vmap to drop or reject packets to service nodeports with no endpoints");
  text.Add("chain", "reject-chain",
           "{ comment \"helper for @no-endpoint-services / @no-endpoint-nodeports\" ; }");
  text.Flush("chain", "reject-chain");
  text.Rule("reject-chain", "reject");
  text.Rule("service-endpoints-check", address + "no-endpoint-services");
  text.Rule("nodeport-endpoints-check", node_port + "no-endpoint-nodeports");
  add("map", "firewall-ips", address_key + " : verdict",
      "destinations that are subject to LoadBalancerSourceRanges");
  text.Rule("firewall-check", address + "firewall-ips");
  add("map", "service-ips", address_key + " : verdict",
      "ClusterIP, ExternalIP and LoadBalancer IP traffic");
  add("map", "service-nodeports", "inet_proto . inet_service : verdict", "NodePort traffic");
  if (node.layout == NftablesLayout::kSharedDispatch) {
    add("map", "endpoints",
        absl::StrCat(address_key, " . mark : ", address_type, " . inet_service"),
        "endpoints of all Services");
  }
  text.Rule("services",
            absl::StrCat(ip, " daddr @cluster-ips ", ip, " saddr != ", node.cluster_cidr.ToString(),
                         " ", kNftSetMark),
            "masquerade clusterIP traffic from outside cluster");
  text.Rule("services", address + "service-ips");
  text.Rule("services", node_port + "service-nodeports");
}

// Returns the number of endpoints in the name of the shared chain to which the cluster IP leads, or
// 0 if the Service has no endpoints or has separate chains.
size_t DispatchSize(const NftablesNode& node, const ServicePort& port) {
  const bool shared = node.layout == NftablesLayout::kSharedDispatch && port.affinity_seconds == 0;
  return shared ? port.endpoints.size() : 0;
}

std::string DispatchChain(size_t endpoints) { return absl::StrCat("dispatch-", endpoints); }

void WriteDispatchRule(NftText& text, Family family, size_t endpoints) {
  const char* const ip = NftWordsOf(family).family;
  text.Rule(
      DispatchChain(endpoints),
      absl::StrCat("ct mark set numgen random mod ", endpoints, " dnat ", ip, " addr . port to ",
                   ip, " daddr . meta l4proto . th dport . ct mark map @endpoints"));
}

// Chains, rules and elements of one Service port.
struct PortLayout {
  std::vector<std::string> chains;
  std::vector<std::string> affinity_sets;
  std::vector<NftElement> elements;
  std::string rules;  // Commands that fill the port's chains and declare the affinity sets.
};

class PortWriter {
 public:
  PortWriter(const NftablesNode& node, const ServicePort& port)
      : node_(node),
        port_(port),
        words_(NftWordsOf(port.family())),
        protocol_(LowerCase(proxy::ProtocolName(port.protocol))),
        base_(proxy::test::KubeChainName(port.Key(), port.port_name, port.protocol)),
        rules_(port.family()) {
    // The endpoints sorted by their string form (S-27).
    std::vector<std::pair<std::string, const BenchEndpoint*>> by_text;
    for (const BenchEndpoint& endpoint : port.endpoints) {
      by_text.emplace_back(endpoint.address.ip.WithPort(endpoint.address.port), &endpoint);
    }
    std::sort(by_text.begin(), by_text.end());
    for (const auto& [unused, endpoint] : by_text) {
      all_.push_back(endpoint->address);
      if (endpoint->node == 0) here_.push_back(endpoint->address);
    }
  }

  PortLayout Write() && {
    AddElements();
    if (Affinity()) {
      for (const proxy::EndpointAddress& endpoint : all_) WriteEndpoint(endpoint);
    }
    if (!all_.empty() && (!Shared() || External())) WriteSet("service-", all_);
    if (LocalPolicy() && !here_.empty()) WriteSet("local-", here_);
    if (!all_.empty() && External()) WriteExternal();
    if (Restricted()) WriteFirewall();
    layout_.rules = rules_.Take();
    return std::move(layout_);
  }

  // Returns an element that several Service ports may share.
  static NftElement ClusterIp(const ServicePort& port) {
    return {.container = "cluster-ips", .key = port.cluster_ip.ToString()};
  }
  static NftElement Hairpin(const ServicePort& port, const proxy::EndpointAddress& endpoint) {
    const std::string ip = endpoint.ip.ToString();
    return {.container = "hairpin-connections",
            .key = absl::StrCat(ip, " . ", ip, " . ", LowerCase(proxy::ProtocolName(port.protocol)),
                                " . ", endpoint.port)};
  }

 private:
  static std::string LowerCase(std::string_view text) {
    return absl::AsciiStrToLower({text.data(), text.size()});
  }

  bool Shared() const { return DispatchSize(node_, port_) != 0; }
  bool Affinity() const { return port_.affinity_seconds != 0; }
  bool External() const {
    return port_.node_port != 0 || !port_.external_ips.empty() || !port_.load_balancer_ips.empty();
  }
  bool LocalPolicy() const { return port_.external_local && External(); }
  bool Restricted() const {
    return !port_.load_balancer_ips.empty() && !port_.source_ranges.empty();
  }
  std::string EndpointName(const proxy::EndpointAddress& endpoint) const {
    return proxy::test::KubeEndpointChainName(port_.Key(), port_.port_name, port_.protocol,
                                              endpoint);
  }

  void AddElements() {
    for (const proxy::EndpointAddress& endpoint : here_) {
      layout_.elements.push_back(Hairpin(port_, endpoint));
    }
    layout_.elements.push_back(ClusterIp(port_));
    AddDestination("service-ips", "no-endpoint-services", AddressKey(port_.cluster_ip),
                   Shared() ? DispatchChain(all_.size()) : "service-" + base_, all_);
    if (Shared()) AddSharedEndpoints();
    const std::vector<proxy::EndpointAddress>& external = LocalPolicy() ? here_ : all_;
    for (const std::vector<IpAddress>* ips : {&port_.external_ips, &port_.load_balancer_ips}) {
      for (const IpAddress& ip : *ips) {
        AddDestination("service-ips", "no-endpoint-services", AddressKey(ip), "external-" + base_,
                       external);
      }
    }
    if (port_.node_port != 0) {
      AddDestination("service-nodeports", "no-endpoint-nodeports",
                     absl::StrCat(protocol_, " . ", port_.node_port), "external-" + base_,
                     external);
    }
    if (!Restricted()) return;
    for (const IpAddress& ip : port_.load_balancer_ips) {
      layout_.elements.push_back({.container = "firewall-ips",
                                  .key = AddressKey(ip),
                                  .verdict = "goto firewall-" + base_});
    }
  }

  std::string AddressKey(const IpAddress& ip) const {
    return absl::StrCat(ip.ToString(), " . ", protocol_, " . ", port_.port);
  }

  void AddSharedEndpoints() {
    for (size_t i = 0; i < port_.endpoints.size(); ++i) {
      const proxy::EndpointAddress& endpoint = port_.endpoints[i].address;
      layout_.elements.push_back(
          {.container = "endpoints",
           .key = absl::StrCat(AddressKey(port_.cluster_ip), " . ", i),
           .verdict = absl::StrCat(endpoint.ip.ToString(), " . ", endpoint.port)});
    }
  }

  // Adds the destination to `map` if the Service has endpoints, and to `no_endpoint_map` if
  // `endpoints` is empty. A destination is in both maps if the Service has endpoints, but
  // `endpoints` is empty. In this case, pods and the node can reach endpoints on other nodes, but
  // packets from other clients are dropped (S-80).
  void AddDestination(const std::string& map, const std::string& no_endpoint_map,
                      const std::string& key, const std::string& chain,
                      const std::vector<proxy::EndpointAddress>& endpoints) {
    if (!all_.empty()) {
      layout_.elements.push_back({.container = map, .key = key, .verdict = "goto " + chain});
    }
    if (endpoints.empty()) {
      layout_.elements.push_back({.container = no_endpoint_map,
                                  .key = key,
                                  .verdict = all_.empty() ? "goto reject-chain" : "drop",
                                  .comment = port_.Text()});
    }
  }

  std::string StartChain(const std::string& name) { return layout_.chains.emplace_back(name); }

  void WriteEndpoint(const proxy::EndpointAddress& endpoint) {
    const std::string name = EndpointName(endpoint);
    const std::string chain = StartChain("endpoint-" + name);
    const std::string set = layout_.affinity_sets.emplace_back("affinity-" + name);
    rules_.Add("set", set,
               absl::StrCat("{ type ", words_.address_type, " ; flags dynamic,timeout ; timeout ",
                            port_.affinity_seconds, "s ; }"));
    rules_.Rule(chain, absl::StrCat("update @", set, " { ", words_.family, " saddr }"));
    rules_.Rule(chain, absl::StrCat("meta l4proto ", protocol_, " dnat to ",
                                    endpoint.ip.WithPort(endpoint.port)));
  }

  void WriteSet(const std::string& prefix, const std::vector<proxy::EndpointAddress>& endpoints) {
    const std::string chain = StartChain(prefix + base_);
    const bool plain_single = node_.layout != NftablesLayout::kMapPerService;
    if (plain_single && endpoints.size() == 1 && !Affinity()) {
      rules_.Rule(chain, absl::StrCat("meta l4proto ", protocol_, " dnat to ",
                                      endpoints[0].ip.WithPort(endpoints[0].port)));
      return;
    }
    std::string targets;
    for (size_t i = 0; i < endpoints.size(); ++i) {
      absl::StrAppend(&targets, i == 0 ? "" : " , ", i, " : ");
      if (Affinity()) {
        const std::string name = EndpointName(endpoints[i]);
        rules_.Rule(
            chain, absl::StrCat(words_.family, " saddr @affinity-", name, " goto endpoint-", name));
        absl::StrAppend(&targets, "goto endpoint-", name);
      } else {
        absl::StrAppend(&targets, endpoints[i].ip.ToString(), " . ", endpoints[i].port);
      }
    }
    const std::string pick = absl::StrCat("numgen random mod ", endpoints.size());
    rules_.Rule(chain, Affinity()
                           ? absl::StrCat(pick, " vmap { ", targets, " }")
                           : absl::StrCat("meta l4proto ", protocol_, " dnat ", words_.family,
                                          " addr . port to ", pick, " map { ", targets, " }"));
  }

  void WriteExternal() {
    const std::string chain = StartChain("external-" + base_);
    const std::string cluster_set = " goto service-" + base_;
    if (!LocalPolicy()) {
      rules_.Rule(chain, kNftSetMark, "masquerade");
      rules_.Rule(chain, "goto service-" + base_);
      return;
    }
    rules_.Rule(chain,
                absl::StrCat(words_.family, " saddr ", node_.cluster_cidr.ToString(), cluster_set),
                "short-circuit pod traffic");
    rules_.Rule(chain, absl::StrCat("fib saddr type local ", kNftSetMark),
                "masquerade local traffic");
    rules_.Rule(chain, "fib saddr type local" + cluster_set, "short-circuit local traffic");
    if (!here_.empty()) rules_.Rule(chain, "goto local-" + base_);
  }

  void WriteFirewall() {
    const std::string chain = StartChain("firewall-" + base_);
    std::vector<std::string> sources;
    bool node_allowed = false;
    for (const IpPrefix& range : port_.source_ranges) {
      sources.push_back(range.ToString());
      node_allowed |= range.Contains(node_.ip);
    }
    if (node_allowed) {  // S-118: the load balancer IPs are permitted sources too.
      for (const IpAddress& ip : port_.load_balancer_ips) sources.push_back(ip.ToString());
    }
    rules_.Rule(chain, absl::StrCat(words_.family, " saddr != { ", absl::StrJoin(sources, " , "),
                                    " } drop"));
  }

  const NftablesNode& node_;
  const ServicePort& port_;
  const NftWords words_;
  const std::string protocol_;
  const std::string base_;
  // The cluster endpoint set and the local endpoint set.
  std::vector<proxy::EndpointAddress> all_, here_;
  PortLayout layout_;
  NftText rules_;
};

std::string WriteTable(const NftablesNode& node, const std::vector<ServicePort>& ports,
                       bool first) {
  const Family family = node.ip.family();
  NftText base(family);
  WriteNftablesBase(base, node, first);
  std::string all =
      absl::StrCat("add table ", NftWordsOf(family).family,
                   " kube-proxy { comment \"rules for kube-proxy\" ; }\n", base.Take());
  std::set<size_t> dispatched;
  for (const ServicePort& port : ports) {
    const PortLayout layout = PortWriter(node, port).Write();
    NftText text(family);
    const size_t dispatch = DispatchSize(node, port);
    if (dispatch != 0 && dispatched.insert(dispatch).second) {
      text.Refill(DispatchChain(dispatch));
      WriteDispatchRule(text, family, dispatch);
    }
    for (const std::string& chain : layout.chains) text.Refill(chain);
    if (first) {
      for (const NftElement& element : layout.elements) text.Add(element);
    }
    absl::StrAppend(&all, text.Take(), layout.rules);
  }
  return all;
}

using PortIdentity = std::tuple<std::string, std::string, std::string, proxy::Protocol>;

PortIdentity IdentityOf(const ServicePort& port) {
  return {port.name_space, port.service, port.port_name, port.protocol};
}

struct NetChange {
  const ServicePort* before = nullptr;
  const ServicePort* after = nullptr;
};

// Combines several changes of one Service port into one change, from the state before the first
// change to the state after the last change (S-334).
std::map<PortIdentity, NetChange> Collapse(const std::vector<ClusterChange>& changes) {
  std::map<PortIdentity, NetChange> collapsed;
  for (const ClusterChange& change : changes) {
    const auto [net, fresh] =
        collapsed.try_emplace(IdentityOf(change.after ? *change.after : *change.before));
    if (fresh && change.before) net->second.before = &*change.before;
    net->second.after = change.after ? &*change.after : nullptr;
  }
  return collapsed;
}

// Returns elements that unchanged Services share with changed Services. An update neither adds nor
// deletes shared elements.
std::set<NftElement> HeldByOthers(const std::vector<ServicePort>& ports,
                                  const std::map<PortIdentity, NetChange>& changes) {
  std::set<IpAddress> cluster_ips;
  std::set<proxy::EndpointAddress> endpoints;
  for (const auto& [unused, change] : changes) {
    for (const ServicePort* port : {change.before, change.after}) {
      if (port == nullptr) continue;
      cluster_ips.insert(port->cluster_ip);
      for (const BenchEndpoint& endpoint : port->endpoints) {
        if (endpoint.node == 0) endpoints.insert(endpoint.address);
      }
    }
  }
  std::set<NftElement> held;
  const auto hold = [&](NftElement element, const ServicePort& port) {
    if (!changes.contains(IdentityOf(port))) held.insert(std::move(element));
  };
  for (const ServicePort& port : ports) {
    if (cluster_ips.contains(port.cluster_ip)) hold(PortWriter::ClusterIp(port), port);
    for (const BenchEndpoint& endpoint : port.endpoints) {
      if (endpoint.node != 0 || !endpoints.contains(endpoint.address)) continue;
      hold(PortWriter::Hairpin(port, endpoint.address), port);
    }
  }
  return held;
}

// Returns the items of `some` that are not in `others`.
template <typename T>
std::vector<T> ItemsWithout(const std::set<T>& some, const std::set<T>& others) {
  std::vector<T> rest;
  std::set_difference(some.begin(), some.end(), others.begin(), others.end(),
                      std::back_inserter(rest));
  return rest;
}

struct WantedObjects {
  std::set<std::string> chains, affinity_sets;
  std::set<NftElement> elements;

  void Insert(const PortLayout& layout) {
    chains.insert(layout.chains.begin(), layout.chains.end());
    affinity_sets.insert(layout.affinity_sets.begin(), layout.affinity_sets.end());
    elements.insert(layout.elements.begin(), layout.elements.end());
  }
};

}  // namespace

std::string NftablesFullSync(const NftablesNode& node, const std::vector<ServicePort>& ports) {
  return WriteTable(node, ports, /*first=*/true);
}

std::string NftablesResync(const NftablesNode& node, const std::vector<ServicePort>& ports) {
  return WriteTable(node, ports, /*first=*/false);
}

NftablesUpdate NftablesChange(const NftablesNode& node, const std::vector<ServicePort>& ports,
                              const std::vector<ClusterChange>& changes) {
  const std::map<PortIdentity, NetChange> collapsed = Collapse(changes);
  WantedObjects before, after;
  std::set<size_t> dispatch_before, dispatch_after;
  std::string rules;
  for (const auto& [unused, change] : collapsed) {
    if (change.before != nullptr) {
      before.Insert(PortWriter(node, *change.before).Write());
      dispatch_before.insert(DispatchSize(node, *change.before));
    }
    if (change.after == nullptr) continue;
    const PortLayout layout = PortWriter(node, *change.after).Write();
    after.Insert(layout);
    dispatch_after.insert(DispatchSize(node, *change.after));
    rules += layout.rules;
  }
  for (const ServicePort& port : ports) dispatch_before.erase(DispatchSize(node, port));
  for (const size_t dispatch : dispatch_before) {
    if (dispatch != 0) before.chains.insert(DispatchChain(dispatch));
  }
  NftText dispatch_rules(node.ip.family());
  for (const size_t dispatch : dispatch_after) {
    if (dispatch == 0) continue;
    after.chains.insert(DispatchChain(dispatch));
    WriteDispatchRule(dispatch_rules, node.ip.family(), dispatch);
  }
  rules += dispatch_rules.Take();
  const std::set<NftElement> held = HeldByOthers(ports, collapsed);
  before.elements.insert(held.begin(), held.end());
  after.elements.insert(held.begin(), held.end());

  NftText head(node.ip.family());
  for (const std::string& chain : after.chains) head.Refill(chain);
  std::map<std::pair<std::string, std::string>, NftElement> gone;
  for (const NftElement& element : ItemsWithout(before.elements, after.elements)) {
    gone.emplace(element.place(), element);
  }
  for (const NftElement& element : ItemsWithout(after.elements, before.elements)) {
    if (gone.erase(element.place()) != 0) head.Delete(element);
    head.Add(element);
  }
  NftablesUpdate update;
  NftText tail(node.ip.family());
  update.stale_chains = ItemsWithout(before.chains, after.chains);
  update.filled_chains = {after.chains.begin(), after.chains.end()};
  for (const std::string& chain : update.stale_chains) tail.Flush("chain", chain);
  for (const std::string& set : ItemsWithout(before.affinity_sets, after.affinity_sets)) {
    tail.Delete("set", set);
  }
  for (const auto& [unused, element] : gone) tail.Delete(element);
  update.transaction = absl::StrCat(head.Take(), rules, tail.Take());
  return update;
}

std::string NftablesDeleteChains(Family family, const std::vector<std::string>& chains) {
  NftText text(family);
  for (const std::string& chain : chains) text.Delete("chain", chain);
  return text.Take();
}

}  // namespace svcmap::bench
