#include "proxy/ruleset/table.h"

#include <vector>

#include "nft/expr/rule_builder.h"
#include "proxy/ruleset/affinity_rules.h"
#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/rule_list.h"
#include "proxy/ruleset/sets.h"

namespace svcmap::proxy {
namespace {

using nft::KeyPart;
using nft::RuleBuilder;

const nft::Key kServiceKey = {KeyPart::kDestination, KeyPart::kProtocol, KeyPart::kDestinationPort};

std::string PickChain(unsigned pick_class) {
  return "pick-" + std::to_string(PickCapacity(pick_class));
}

std::string RepickChain(unsigned pick_class) {
  return "draw-" + std::to_string(PickCapacity(pick_class));
}

std::string HashChain(PickBy pick_by, uint32_t slots) {
  return (pick_by == PickBy::kClient ? "hash-" : "hash-ports-") + std::to_string(slots);
}

using Verdicts = std::vector<std::pair<uint8_t, std::string>>;

// Calls fn(PickBy, size) for each kind and size of hash table.
template <typename Fn>
void ForEachHashTable(Fn fn) {
  for (const PickBy pick_by : {PickBy::kClient, PickBy::kClientAndPort}) {
    for (const uint32_t slots : kHashTableSizes) fn(pick_by, slots);
  }
}

// Returns the vmap entries that map descriptors of `kinds` to pick chains.
Verdicts PickVerdicts(std::initializer_list<DispatchKind> kinds, const RulesetOptions& options) {
  Verdicts verdicts;
  for (const DispatchKind kind : kinds) {
    for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
      verdicts.emplace_back(DescriptorByte(kind, pick), PickChain(pick));
    }
    if (!options.hash_picks) continue;
    ForEachHashTable([&](PickBy pick_by, uint32_t slots) {
      verdicts.emplace_back(DescriptorByte(kind, HashClass(pick_by, slots)),
                            HashChain(pick_by, slots));
    });
  }
  return verdicts;
}

std::vector<nft::ChainSpec> MakeChains(const RulesetOptions& options) {
  std::vector<nft::ChainSpec> chains = {
      {"firewall-prerouting", "before dnat: KUBE-FW", {{"filter", "prerouting", -110}}},
      {"firewall-output", "before dnat: KUBE-FW", {{"filter", "output", -110}}},
      {"nat-prerouting", "KUBE-SERVICES from PREROUTING", {{"nat", "prerouting", -100}}},
      {"nat-output", "KUBE-SERVICES from OUTPUT", {{"nat", "output", -100}}},
      {"nat-postrouting", "KUBE-POSTROUTING", {{"nat", "postrouting", 100}}},
      {"filter-input", "KUBE-EXTERNAL-SERVICES from INPUT", {{"filter", "input", 0}}},
      {"filter-forward", "KUBE-SERVICES from FORWARD", {{"filter", "forward", 0}}},
      {"filter-output", "KUBE-SERVICES from OUTPUT", {{"filter", "output", 0}}},
      {"services", "KUBE-SERVICES and KUBE-NODEPORTS: maps addresses to descriptors", {}},
      {"dispatch", "the destination is a descriptor; all paths end in dnat or drop", {}},
      {"external", "KUBE-EXT: masquerade, then pick", {}},
      {"external-local", "KUBE-EXT with policy Local: pods, the node, other sources", {}},
      {"pick", "picks a random endpoint", {}},
      {"restored", "picks an endpoint if session affinity has just ended", {}},
      {"mark-masq", "KUBE-MARK-MASQ", {}},
      {"firewall-check", "KUBE-FW: drops sources that may not use a load balancer IP", {}},
      {"nodeport-endpoints-check", "KUBE-NODEPORTS (filter): nodePorts without endpoints", {}},
      {"service-endpoints-check", "KUBE-SERVICES (filter): Services without endpoints", {}},
      {"cluster-ips-check", "clusterIPs: rejects unknown ports, drops unallocated addresses", {}},
      {"pick-first", "fallback if no random pick found an endpoint", {}},
  };
  if (options.count_connections) {
    chains.push_back({"count", "counts new connections by address", {}});
  }
  if (options.tcp_resets == TcpResets::kStrict) {
    chains.push_back({"reset-untracked", "resets TCP connections without conntrack entry", {}});
  }
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    const std::string capacity = std::to_string(PickCapacity(pick));
    if (pick <= kMaxExactClass) {
      chains.push_back({PickChain(pick), "KUBE-SVC with " + capacity + " endpoints", {}});
    } else {
      chains.push_back({PickChain(pick), "KUBE-SVC with at most " + capacity + " endpoints", {}});
      chains.push_back({RepickChain(pick), "", {}});
    }
  }
  if (options.hash_picks) {
    ForEachHashTable([&](PickBy pick_by, uint32_t slots) {
      chains.push_back({HashChain(pick_by, slots),
                        pick_by == PickBy::kClient ? "picks by client address"
                                                   : "picks by client address and port",
                        {}});
    });
  }
  return chains;
}

// When an element is added to a data map, the kernel checks every rule that looks up the map (about
// 12 ns per rule). Therefore each pick class has exactly one rule that looks up the map. In an
// exact class, a pick misses only if a commit happens between two lookups of the same packet.
void AddPickRules(bool hash_picks, RuleList& rules) {
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    const std::string chain = PickChain(pick);
    if (pick <= kMaxExactClass) {
      rules.Add(rules.In(chain).DnatToRandomSlot(PickCapacity(pick), Named(kEndpoints)));
    } else {
      for (int i = 0; i < kSizeClassPicks; ++i) rules.Add(rules.In(chain).Jump(RepickChain(pick)));
      rules.Add(
          rules.In(RepickChain(pick)).DnatToRandomSlot(PickCapacity(pick), Named(kEndpoints)));
    }
    rules.Add(rules.In(chain).Goto("pick-first"));
  }
  if (hash_picks) {
    ForEachHashTable([&](PickBy pick_by, uint32_t slots) {
      const std::string chain = HashChain(pick_by, slots);
      nft::Key client = {KeyPart::kSource};
      if (pick_by == PickBy::kClientAndPort) client.push_back(KeyPart::kSourcePort);
      rules.Add(rules.In(chain).DnatToHashedSlot(client, slots, kHashSeed, Named(kEndpoints)));
      rules.Add(rules.In(chain).Goto("pick-first"));
    });
  }
  rules.Add(rules.In("pick-first").DnatToRandomSlot(1, Named(kEndpoints)));
  rules.Add(rules.In("pick-first").Drop());
}

// Translates echo requests to the node, whose kernel answers them. Connection tracking restores the
// Service address in the reply. `redirect` is not used: in IPv4, it drops packets that arrive on an
// interface without an address, such as the interfaces of Calico's pods. Addresses that are bound
// to the node are not translated, because the kernel answers at these addresses without a rule.
void AddPingRules(RuleList& rules) {
  for (const std::string_view chain : {"nat-prerouting", "nat-output"}) {
    rules.Add(rules.In(chain)
                  .EchoRequest()
                  .In({KeyPart::kDestination}, Named(kPingAddresses))
                  .DestinationIsNotLocal()
                  .DnatTo({KeyPart::kProtocol}, Named(kPingTarget)));
  }
  // The limit is not part of the nat rules, because nat rules see only the first request of a
  // series with the same identifier.
  rules.Add(rules.In("filter-input")
                .EchoRequest()
                .ConntrackDnat()
                .In({KeyPart::kOriginalDestination}, Named(kPingAddresses))
                .RateAbovePerSecond(kPingsPerSecond)
                .Drop());
}

void AddNatRules(Family family, const RulesetOptions& options, RuleList& rules) {
  rules.Add(rules.In("nat-prerouting").Jump("services"));
  rules.Add(rules.In("nat-output").Jump("services"));

  const bool by_interface = options.detect_local == DetectLocal::kInterface;
  RuleBuilder masquerade = rules.In("services");
  if (const auto pods = ConstantPods(options, family)) {
    // The pod CIDR is compared first, so that traffic from pods skips the lookup.
    masquerade.SourceNotIn(*pods).In({KeyPart::kDestination}, Named(kClusterIps));
  } else {
    masquerade.In({KeyPart::kDestination}, Named(kClusterIps));
    if (!by_interface) {
      masquerade.In({KeyPart::kSource}, Named(kMasqueradeSources));
    } else if (!options.masquerade_all) {
      // The interface condition also matches packets from the node itself (S-70).
      masquerade.InputIsNot(options.interface);
    }
  }
  rules.Add(masquerade.Jump("mark-masq"));
  // Options change only chains without anonymous sets. When such a set is replaced, packets that
  // still evaluate the old rule miss its elements (Linux 6.18).
  rules.Add(rules.In("services")
                .RewriteDestination(kServiceKey, Named(kServiceIps))
                .Goto(options.count_connections ? "count" : "dispatch"));

  if (options.count_connections) {
    rules.Add(rules.In("count").Count(
        {KeyPart::kOriginalDestination, KeyPart::kProtocol, KeyPart::kDestinationPort},
        {ConnectionCountSet(options), kServiceConnectionsName}, kCountedSeconds));
    rules.Add(rules.In("count").Goto("dispatch"));
  }
  rules.Add(rules.In("dispatch")
                .GotoByDestinationByte(0, PickVerdicts({DispatchKind::kInternal}, options)));
  for (const auto& [kind, chain] : {std::pair{DispatchKind::kExternal, "external"},
                                    std::pair{DispatchKind::kExternalLocal, "external-local"},
                                    std::pair{DispatchKind::kSticky, "sticky"}}) {
    rules.Add(rules.In("dispatch").DestinationIn(DescriptorPrefix(family, kind)).Goto(chain));
  }
  rules.Add(rules.In("dispatch").Drop());

  rules.Add(rules.In("external").Jump("mark-masq"));
  rules.Add(rules.In("external").Goto("pick"));
  // Matches pods before the node (S-73). Without a local endpoint set, external traffic is dropped
  // (S-80).
  RuleBuilder pods = rules.In("external-local");
  if (by_interface) {
    pods.InputIs(options.interface);
  } else {
    pods.In({KeyPart::kSource}, Named(kPodSources));
  }
  rules.Add(pods.Goto("pick"));
  rules.Add(rules.In("external-local").SourceIsLocal().Goto("external"));
  rules.Add(rules.In("external-local")
                .RewriteDestination({KeyPart::kDestination}, Named(kLocalSets))
                .Goto("pick"));
  rules.Add(rules.In("external-local").Drop());

  rules.Add(rules.In("pick").GotoByDestinationByte(
      0, PickVerdicts({DispatchKind::kExternal, DispatchKind::kExternalLocal}, options)));
  rules.Add(rules.In("pick")
                .DestinationIn(DescriptorPrefix(family, DispatchKind::kSticky))
                .Goto("stick"));
  rules.Add(rules.In("pick").Drop());
  // A packet whose affinity has ended is already marked for masquerade.
  rules.Add(
      rules.In("restored").DestinationIn(DescriptorPrefix(family, DispatchKind::kSticky)).Return());
  rules.Add(
      rules.In("restored")
          .GotoByDestinationByte(0, PickVerdicts({DispatchKind::kInternal, DispatchKind::kExternal,
                                                  DispatchKind::kExternalLocal},
                                                 options)));
  rules.Add(rules.In("mark-masq").MarkOr(options.masquerade_mark));

  rules.Add(rules.In("nat-postrouting")
                .MarkHas(options.masquerade_mark)
                .MarkXor(options.masquerade_mark)
                .MasqueradeFullyRandom());
  rules.Add(rules.In("nat-postrouting")
                .ConntrackDnat()
                .In({KeyPart::kSource, KeyPart::kDestination, KeyPart::kProtocol,
                     KeyPart::kDestinationPort},
                    Named(kHairpinConnections))
                .MasqueradeFullyRandom());

  AddPickRules(options.hash_picks, rules);
}

// Resets TCP connections without conntrack entry. The ICMP errors of the other rules do not end an
// established connection. `reset_rules` changes at run time, so it affects only rules of chains
// that always exist.
void AddResetRules(const RulesetOptions& options, RuleList& rules) {
  const auto reset = [&](std::string_view chain, SetIndex set) {
    rules.Add(
        rules.In(chain).TcpWithoutSynOrRst().In(kServiceKey, Named(set)).RejectWithTcpReset());
  };
  if (options.tcp_resets == TcpResets::kLoose && options.reset_rules) {
    reset("nodeport-endpoints-check", kNoEndpointNodePorts);
    reset("service-endpoints-check", kNoEndpointServices);
  }
  if (options.tcp_resets == TcpResets::kStrict) {
    for (const std::string_view chain : {"filter-input", "filter-forward", "filter-output"}) {
      if (!options.reset_rules) break;
      rules.Add(rules.In(chain).ConntrackInvalid().Jump("reset-untracked"));
    }
    // The source range check in prerouting matches only new connections.
    rules.Add(rules.In("reset-untracked").Jump("firewall-check"));
    // Linux before 6.18 rejects a lookup in the map service-ips that does not read the data.
    reset("reset-untracked", kResetServices);
  }
}

// Matches only new connections, so that established flows are never interrupted (S-101).
void AddFilterRules(const RulesetOptions& options, RuleList& rules) {
  for (const std::string_view chain : {"firewall-prerouting", "firewall-output"}) {
    rules.Add(rules.In(chain).ConntrackNew().Jump("firewall-check"));
  }
  nft::Key from_source = kServiceKey;
  from_source.push_back(KeyPart::kSource);
  rules.Add(rules.In("firewall-check")
                .In(kServiceKey, Named(kFirewallIps))
                .NotIn(from_source, Named(kFirewallSources))
                .Drop());
  // A nodePort without endpoints is rejected only in hook input (S-102). A process on the node then
  // receives ECONNREFUSED from the ICMP error. With a reject in hook output, the send call of the
  // process would fail with EPERM.
  rules.Add(rules.In("filter-input").ConntrackNew().Jump("nodeport-endpoints-check"));
  rules.Add(rules.In("filter-input").ConntrackNew().Jump("service-endpoints-check"));
  for (const std::string_view chain : {"filter-forward", "filter-output"}) {
    rules.Add(rules.In(chain).ConntrackNew().Jump("service-endpoints-check"));
    rules.Add(rules.In(chain).ConntrackNew().Jump("cluster-ips-check"));
  }
  AddResetRules(options, rules);
  rules.Add(rules.In("nodeport-endpoints-check")
                .In(kServiceKey, Named(kNoEndpointNodePorts))
                .RejectPortUnreachable());
  rules.Add(rules.In("service-endpoints-check")
                .In(kServiceKey, Named(kNoEndpointServices))
                .RejectPortUnreachable());
  rules.Add(rules.In("cluster-ips-check")
                .In({KeyPart::kDestination}, Named(kClusterIps))
                .RejectPortUnreachable());
  rules.Add(rules.In("cluster-ips-check").In({KeyPart::kDestination}, Named(kServiceCidrs)).Drop());
}

}  // namespace

uint8_t RowSetCount(const nft::TableSpec& table) {
  const bool counted = table.sets.back().name == kServiceConnectionsName;
  return static_cast<uint8_t>(table.sets.size() - (counted ? 1 : 0));
}

uint8_t RowSetCount(const RulesetOptions& options) {
  if (options.tcp_resets == TcpResets::kStrict) return kRowSetCount;
  return options.answer_ping ? kPingTarget + 1 : kSetCount;
}

uint8_t ConnectionCountSet(const RulesetOptions& options) { return RowSetCount(options); }

std::optional<IpPrefix> ConstantPods(const RulesetOptions& options, Family family) {
  if (options.detect_local != DetectLocal::kClusterCidr || options.masquerade_all) {
    return std::nullopt;
  }
  return options.cluster_cidr[Index(family)];
}

nft::TableSpec MakeTable(Family family, const RulesetOptions& options,
                         std::span<const uint32_t> timers) {
  RuleList rules(family);
  if (options.answer_ping) AddPingRules(rules);
  AddNatRules(family, options, rules);
  AddFilterRules(options, rules);
  AddAffinityRules(family, timers, rules);
  std::vector<nft::ChainSpec> chains = MakeChains(options);
  AddAffinityChains(timers, chains);
  return {.family = family,
          .name = std::string(kTableName),
          .sets = MakeSets(family, options),
          .chains = std::move(chains),
          .rules = rules.Take()};
}

nft::TableSpecs MakeTables(const RulesetOptions& options) {
  return {MakeTable(Family::kIpv4, options), MakeTable(Family::kIpv6, options)};
}

}  // namespace svcmap::proxy
