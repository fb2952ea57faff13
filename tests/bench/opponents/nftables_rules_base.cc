#include "tests/bench/opponents/nftables_rules_base.h"

#include <set>
#include <tuple>

namespace svcmap::bench {
namespace {

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

}  // namespace

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

}  // namespace svcmap::bench
