#include "proxy/ruleset/table.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/expr/rule_builder.h"
#include "proxy/ruleset/affinity_rules.h"
#include "proxy/ruleset/descriptor.h"
#include "proxy/ruleset/service_rule.h"
#include "proxy/ruleset/sets.h"

namespace svcmap::proxy {
namespace {

using nft::KeyPart;
using nft::RuleBuilder;

const nft::Key kServiceKey = {KeyPart::kDestination, KeyPart::kProtocol, KeyPart::kDestinationPort};

const nft::Key kBlockKey = {KeyPart::kDestination, KeyPart::kProtocol,
                            KeyPart::kDestinationPortBlock};

constexpr std::string_view kRangePrefix = "range-";

// The chains for single ports or for port ranges, which have a prefix.
enum class PortKind : uint8_t { kSingle, kRange };

SetIndex EndpointsOf(PortKind ports) {
  return ports == PortKind::kRange ? kRangeEndpoints : kEndpoints;
}

std::string Chain(PortKind ports, std::string_view name) {
  return std::string(ports == PortKind::kRange ? kRangePrefix : "").append(name);
}

std::string PickChain(PortKind ports, unsigned pick_class) {
  return Chain(ports, "pick-" + std::to_string(PickCapacity(pick_class)));
}

std::string RepickChain(PortKind ports, unsigned pick_class) {
  return Chain(ports, "draw-" + std::to_string(PickCapacity(pick_class)));
}

std::string HashChain(PortKind ports, PickBy pick_by, uint32_t slots) {
  return Chain(ports, pick_by == PickBy::kClient ? "hash-" : "hash-ports-") + std::to_string(slots);
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
Verdicts PickVerdicts(PortKind ports, std::initializer_list<DispatchKind> kinds,
                      const RulesetOptions& options) {
  Verdicts verdicts;
  for (const DispatchKind kind : kinds) {
    for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
      verdicts.emplace_back(DescriptorByte(kind, pick), PickChain(ports, pick));
    }
    if (!options.hash_picks) continue;
    ForEachHashTable([&](PickBy pick_by, uint32_t slots) {
      verdicts.emplace_back(DescriptorByte(kind, HashClass(pick_by, slots)),
                            HashChain(ports, pick_by, slots));
    });
  }
  return verdicts;
}

// Comments of chains without a hook, for operators who list the table. The comment of `pick-`
// applies to `pick-1`, `pick-2` and so on.
constexpr std::pair<std::string_view, std::string_view> kComments[] = {
    {"services", "KUBE-SERVICES and KUBE-NODEPORTS: maps addresses to descriptors"},
    {"range-services", "port ranges: checks sources, counts connections"},
    {"count", "counts new connections by address"},
    {"dispatch", "the destination is a descriptor; all paths end in dnat or drop"},
    {"external", "KUBE-EXT: masquerade, then pick"},
    {"external-local", "KUBE-EXT with policy Local: pods, the node, other sources"},
    {"pick", "picks a random endpoint"},
    {"pick-", "KUBE-SVC with at most this number of endpoints"},
    {"pick-first", "fallback if no random pick found an endpoint"},
    {"hash-", "picks by client address"},
    {"hash-ports-", "picks by client address and port"},
    {"restored", "picks an endpoint if session affinity has just ended"},
    {"sticky", "session affinity: dispatch by kind"},
    {"stick", "session affinity: dispatch by timeout and set"},
    {"choose", "session affinity: picks a random endpoint"},
    {"choose-first", "fallback if no random pick found an endpoint"},
    {"restore", "session affinity: restores the descriptor"},
    {"mark-masq", "KUBE-MARK-MASQ"},
    {"firewall-check", "KUBE-FW: drops sources that may not use a load balancer IP"},
    {"nodeport-endpoints-check", "KUBE-NODEPORTS (filter): nodePorts without endpoints"},
    {"service-endpoints-check", "KUBE-SERVICES (filter): Services without endpoints"},
    {"cluster-ips-check", "clusterIPs: rejects unknown ports, drops unallocated addresses"},
    {"reject-chain", "TCP reset for new connections, otherwise ICMP port unreachable"},
    {"range-reject", "port ranges without endpoints"},
    {"reset-untracked", "resets TCP connections without conntrack entry"},
};

std::string CommentOf(std::string_view chain) {
  chain = chain.substr(0, chain.find_last_not_of("0123456789") + 1);
  for (const auto& [name, comment] : kComments) {
    if (name == chain) return std::string(comment);
  }
  if (!chain.starts_with(kRangePrefix)) return "";
  const std::string comment = CommentOf(chain.substr(kRangePrefix.size()));
  return comment.empty() ? "" : comment + ", for port ranges";
}

// Returns the base chains, and each other chain that has rules.
std::vector<nft::ChainSpec> ChainsOf(const std::vector<nft::RuleSpec>& rules) {
  std::vector<nft::ChainSpec> chains = {
      {"firewall-prerouting", "before dnat: KUBE-FW", {{"filter", "prerouting", -110}}},
      {"firewall-output", "before dnat: KUBE-FW", {{"filter", "output", -110}}},
      {"nat-prerouting", "KUBE-SERVICES from PREROUTING", {{"nat", "prerouting", -100}}},
      {"nat-output", "KUBE-SERVICES from OUTPUT", {{"nat", "output", -100}}},
      {"dnat-prerouting", "restores untranslated destinations", {{"filter", "prerouting", -99}}},
      {"nat-postrouting", "KUBE-POSTROUTING", {{"nat", "postrouting", 100}}},
      {"filter-input", "KUBE-EXTERNAL-SERVICES from INPUT", {{"filter", "input", 0}}},
      {"filter-forward", "KUBE-SERVICES from FORWARD", {{"filter", "forward", 0}}},
      {"filter-output", "KUBE-SERVICES from OUTPUT", {{"filter", "output", 0}}},
  };
  absl::flat_hash_set<std::string> known;
  for (const nft::ChainSpec& chain : chains) known.insert(chain.name);
  for (const nft::RuleSpec& rule : rules) {
    if (known.insert(rule.chain).second) chains.push_back({rule.chain, CommentOf(rule.chain)});
  }
  return chains;
}

// When an element is added to a data map, the kernel checks every rule that looks up the map (about
// 12 ns per rule). Therefore each pick class has exactly one rule that looks up the map. In an
// exact class, a pick misses only if a commit happens between two lookups of the same packet.
void AddPickRules(PortKind ports, RuleList& rules) {
  const auto pick_slot = [&](const std::string& chain, uint32_t slots) {
    rules.In(chain).DnatToRandomSlot(slots, EndpointsOf(ports));
  };
  const std::string first = Chain(ports, "pick-first");
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    const std::string chain = PickChain(ports, pick);
    if (pick <= kMaxExactClass) {
      pick_slot(chain, PickCapacity(pick));
    } else {
      const std::string repick = RepickChain(ports, pick);
      for (int i = 0; i < kSizeClassPicks; ++i) rules.In(chain).Jump(repick);
      pick_slot(repick, PickCapacity(pick));
    }
    rules.In(chain).Goto(first);
  }
  pick_slot(first, 1);
  rules.In(first).Drop();
}

void AddHashRules(PortKind ports, RuleList& rules) {
  ForEachHashTable([&](PickBy pick_by, uint32_t slots) {
    const std::string chain = HashChain(ports, pick_by, slots);
    nft::Key client = {KeyPart::kSource};
    if (pick_by == PickBy::kClientAndPort) client.push_back(KeyPart::kSourcePort);
    rules.In(chain).DnatToHashedSlot(client, slots, EndpointsOf(ports));
    rules.In(chain).Goto(Chain(ports, "pick-first"));
  });
}

// Excludes addresses of the node, because the kernel answers at these addresses without a rule.
void AddPingRules(RuleList& rules) {
  for (const std::string_view chain : {"nat-prerouting", "nat-output"}) {
    rules.In(chain)
        .EchoRequest()
        .In({KeyPart::kDestination}, Named(kPingAddresses))
        .DestinationIsNotLocal()
        .DnatTo({KeyPart::kProtocol}, Named(kPingTarget));
  }
  // The nat rules see only the first request of a series with the same identifier.
  rules.In("filter-input")
      .EchoRequest()
      .ConntrackDnat()
      .In({KeyPart::kOriginalDestination}, Named(kPingAddresses))
      .RateAbovePerSecond(kPingsPerSecond)
      .Drop();
}

// The rules from the descriptor to the pick.
void AddDispatchRules(PortKind ports, Family family, const RulesetOptions& options,
                      RuleList& rules) {
  const std::string dispatch = Chain(ports, "dispatch");
  const std::string external = Chain(ports, "external");
  const std::string external_local = Chain(ports, "external-local");
  const std::string pick = Chain(ports, "pick");
  rules.In(dispatch).GotoByDestinationByte(0,
                                           PickVerdicts(ports, {DispatchKind::kInternal}, options));
  const auto dispatch_to = [&](DispatchKind kind, const std::string& chain) {
    rules.In(dispatch).DestinationIn(DescriptorPrefix(family, kind)).Goto(chain);
  };
  dispatch_to(DispatchKind::kExternal, external);
  dispatch_to(DispatchKind::kExternalLocal, external_local);
  dispatch_to(DispatchKind::kSticky, "sticky");
  rules.In(dispatch).Drop();

  rules.In(external).Jump("mark-masq");
  rules.In(external).Goto(pick);
  // Matches pods before the node (S-73). Without a local endpoint set, external traffic is dropped
  // (S-80).
  RuleBuilder& pods = rules.In(external_local);
  if (options.detect_local == DetectLocal::kInterface) {
    pods.InputIs(options.interface);
  } else {
    pods.In({KeyPart::kSource}, Named(kPodSources));
  }
  pods.Goto(pick);
  rules.In(external_local).SourceIsLocal().Goto(external);
  rules.In(external_local)
      .RewriteDestination({KeyPart::kDestination}, Named(kLocalSets))
      .Goto(pick);
  rules.RepeatLast(Lookups(options));
  rules.In(external_local).Drop();

  rules.In(pick).GotoByDestinationByte(
      0, PickVerdicts(ports, {DispatchKind::kExternal, DispatchKind::kExternalLocal}, options));
  if (ports == PortKind::kSingle) {
    rules.In(pick).DestinationIn(DescriptorPrefix(family, DispatchKind::kSticky)).Goto("stick");
  }
  rules.In(pick).Drop();

  // A packet whose affinity has ended is already marked for masquerade.
  const std::string restored = Chain(ports, "restored");
  rules.In(restored).DestinationIn(DescriptorPrefix(family, DispatchKind::kSticky)).Return();
  rules.In(restored).GotoByDestinationByte(
      0,
      PickVerdicts(ports,
                   {DispatchKind::kInternal, DispatchKind::kExternal, DispatchKind::kExternalLocal},
                   options));
}

// Consulted after the lookup of a single port has missed. A single port or nodePort without
// endpoints is rejected, even if a range contains it.
void AddRangeRules(Family family, const RulesetOptions& options, RuleList& rules) {
  for (const SetIndex rejects : {kNoEndpointServices, kNoEndpointNodePorts}) {
    rules.In("services").In(kServiceKey, Named(rejects)).Return();
  }
  rules.In("services").RewriteDestination(kServiceKey, Named(kRangePorts)).Goto("range-services");
  rules.RepeatLast(Lookups(options));
  rules.In("services").RewriteDestination(kBlockKey, Named(kRangeBlocks)).Goto("range-services");
  rules.RepeatLast(Lookups(options));
  // The sources are checked after the lookup of the range, because single ports in the range may
  // belong to other Services.
  const nft::Key address = {KeyPart::kOriginalDestination, KeyPart::kProtocol};
  nft::Key from_source = address;
  from_source.push_back(KeyPart::kSource);
  rules.In("range-firewall-check")
      .In(address, Named(kRangeFirewallIps))
      .NotIn(from_source, Named(kRangeFirewallSources))
      .Drop();
  rules.In("range-services").Jump("range-firewall-check");
  if (options.count_connections) {
    rules.In("range-services")
        .Count(address, {RangeConnectionCountSet(options), kRangeConnectionsName}, kCountedSeconds);
  }
  rules.In("range-services").Goto("range-dispatch");
  AddDispatchRules(PortKind::kRange, family, options, rules);
  AddPickRules(PortKind::kRange, rules);
  if (options.hash_picks) AddHashRules(PortKind::kRange, rules);
  rules.In("nat-postrouting")
      .ConntrackDnat()
      .In({KeyPart::kSource, KeyPart::kDestination, KeyPart::kProtocol}, Named(kRangeHairpins))
      .MasqueradeFullyRandom();
  rules.In("service-endpoints-check")
      .In(kServiceKey, Named(kNoEndpointRangePorts))
      .Goto("range-reject");
  rules.In("service-endpoints-check")
      .In(kBlockKey, Named(kNoEndpointRangeBlocks))
      .Goto("range-reject");
  // A translated connection belongs to another Service, whose endpoint has an address of the range.
  rules.In("range-reject").ConntrackDnat().Return();
  rules.In("range-reject").Jump("range-firewall-check");
  rules.In("range-reject").Goto("reject-chain");
}

void AddNatRules(Family family, const RulesetOptions& options, RuleList& rules) {
  // `dnat` would not translate a confirmed connection (docs/decisions/0001).
  for (const std::string_view chain : {"nat-prerouting", "nat-output"}) {
    rules.In(chain).ConntrackNotConfirmed().Jump("services");
  }

  const bool by_interface = options.detect_local == DetectLocal::kInterface;
  RuleBuilder& masquerade = rules.In("services");
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
  masquerade.Jump("mark-masq");
  // Options change only chains without anonymous sets. When such a set is replaced, packets that
  // still evaluate the old rule miss its elements (Linux 6.18).
  rules.In("services")
      .RewriteDestination(kServiceKey, Named(kServiceIps))
      .Goto(options.count_connections ? "count" : "dispatch");
  rules.RepeatLast(Lookups(options));

  if (options.count_connections) {
    rules.In("count").Count(
        {KeyPart::kOriginalDestination, KeyPart::kProtocol, KeyPart::kDestinationPort},
        {ConnectionCountSet(options), kServiceConnectionsName}, kCountedSeconds);
    rules.In("count").Goto("dispatch");
  }
  AddDispatchRules(PortKind::kSingle, family, options, rules);
  rules.In("mark-masq").MarkOr(options.masquerade_mark);

  rules.In("nat-postrouting")
      .MarkHas(options.masquerade_mark)
      .MarkXor(options.masquerade_mark)
      .MasqueradeFullyRandom();
  rules.In("nat-postrouting")
      .ConntrackDnat()
      .In({KeyPart::kSource, KeyPart::kDestination, KeyPart::kProtocol, KeyPart::kDestinationPort},
          Named(kHairpinConnections))
      .MasqueradeFullyRandom();

  AddPickRules(PortKind::kSingle, rules);
  if (options.hash_picks) AddHashRules(PortKind::kSingle, rules);
}

// Resets TCP connections without conntrack entry. The ICMP errors of the other rules do not end an
// established connection.
void AddResetRules(const RulesetOptions& options, RuleList& rules) {
  const auto reset = [&](std::string_view chain, SetIndex set) {
    rules.In(chain).TcpWithoutSynOrRst().In(kServiceKey, Named(set)).RejectWithTcpReset();
  };
  if (options.tcp_resets == TcpResets::kLoose && options.rules_in_use.resets) {
    reset("nodeport-endpoints-check", kNoEndpointNodePorts);
    reset("service-endpoints-check", kNoEndpointServices);
  }
  if (options.tcp_resets == TcpResets::kStrict) {
    for (const std::string_view chain : {"filter-input", "filter-forward", "filter-output"}) {
      if (!options.rules_in_use.resets) break;
      rules.In(chain).ConntrackInvalid().Jump("reset-untracked");
    }
    // The source range check in prerouting matches only new connections.
    rules.In("reset-untracked").Jump("firewall-check");
    // Linux before 6.18 rejects a lookup in the map service-ips that does not read the data.
    reset("reset-untracked", kResetServices);
  }
}

// If an endpoint is the connection's own destination, `dnat` changes nothing, and the kernel does
// not replace the descriptor in the packet. `ct state new` is first, because it is true for the
// fewest packets.
void AddSelfEndpointRules(RuleList& rules) {
  for (const std::string_view chain : {"dnat-prerouting", "filter-output"}) {
    rules.In(chain)
        .ConntrackNew()
        .ConntrackNotDnat()
        .In({KeyPart::kOriginalDestination, KeyPart::kProtocol}, Named(kSelfEndpoints))
        .RestoreDestination();
  }
}

// Matches only new connections, so that established flows are never interrupted (S-101).
void AddFilterRules(const RulesetOptions& options, RuleList& rules) {
  for (const std::string_view chain : {"firewall-prerouting", "firewall-output"}) {
    rules.In(chain).ConntrackNew().Jump("firewall-check");
  }
  nft::Key from_source = kServiceKey;
  from_source.push_back(KeyPart::kSource);
  rules.In("firewall-check")
      .In(kServiceKey, Named(kFirewallIps))
      .NotIn(from_source, Named(kFirewallSources))
      .Drop();
  if (options.rules_in_use.self_endpoints) AddSelfEndpointRules(rules);
  // A nodePort without endpoints is rejected only in hook input (S-102, proxy/README.md).
  rules.In("filter-input").ConntrackNew().Jump("nodeport-endpoints-check");
  rules.In("filter-input").ConntrackNew().Jump("service-endpoints-check");
  for (const std::string_view chain : {"filter-forward", "filter-output"}) {
    rules.In(chain).ConntrackNew().Jump("service-endpoints-check");
    rules.In(chain).ConntrackNew().Jump("cluster-ips-check");
  }
  AddResetRules(options, rules);
  rules.In("nodeport-endpoints-check")
      .In(kServiceKey, Named(kNoEndpointNodePorts))
      .Goto("reject-chain");
  rules.In("service-endpoints-check")
      .In(kServiceKey, Named(kNoEndpointServices))
      .Goto("reject-chain");
  rules.In("cluster-ips-check")
      .In({KeyPart::kDestination}, Named(kClusterIps))
      .Goto("reject-chain");
  // "Why TCP is rejected with a reset" in proxy/README.md explains the conditions.
  rules.In("reject-chain").ConntrackNotDnat().TcpSynWithoutAck().RejectWithTcpReset();
  rules.In("reject-chain").RejectPortUnreachable();
  rules.In("cluster-ips-check").In({KeyPart::kDestination}, Named(kServiceCidrs)).Drop();
}

}  // namespace

uint8_t RowSetCount(const nft::TableSpec& table) {
  size_t count = table.sets.size();
  if (table.sets[count - 1].name == kRangeConnectionsName) --count;
  if (table.sets[count - 1].name == kServiceConnectionsName) --count;
  return static_cast<uint8_t>(count);
}

uint8_t RowSetCount(const RulesetOptions& options) {
  if (options.port_ranges) return kRowSetCount;
  if (options.tcp_resets == TcpResets::kStrict) return kResetServices + 1;
  return options.answer_ping ? kPingTarget + 1 : kSetCount;
}

uint8_t ConnectionCountSet(const RulesetOptions& options) { return RowSetCount(options); }

uint8_t RangeConnectionCountSet(const RulesetOptions& options) {
  return static_cast<uint8_t>(ConnectionCountSet(options) + 1);
}

std::optional<IpPrefix> ConstantPods(const RulesetOptions& options, Family family) {
  if (options.detect_local != DetectLocal::kClusterCidr || options.masquerade_all) {
    return std::nullopt;
  }
  return options.cluster_cidr[Index(family)];
}

bool MasqueradesClusterIps(const RulesetOptions& options) {
  return options.masquerade_all || options.detect_local != DetectLocal::kClusterCidr ||
         options.cluster_cidr[0] || options.cluster_cidr[1];
}

nft::TableSpec MakeTable(Family family, const RulesetOptions& options,
                         std::span<const uint32_t> timers) {
  RuleList rules(family);
  if (options.answer_ping) AddPingRules(rules);
  AddNatRules(family, options, rules);
  AddFilterRules(options, rules);
  if (options.port_ranges) AddRangeRules(family, options, rules);
  AddAffinityRules(family, timers, options, rules);
  nft::TableSpec table{.family = family,
                       .name = std::string(kTableName),
                       .sets = MakeSets(family, options),
                       .rules = rules.Take()};
  table.chains = ChainsOf(table.rules);
  return table;
}

nft::TableSpecs MakeTables(const RulesetOptions& options) {
  return {MakeTable(Family::kIpv4, options), MakeTable(Family::kIpv6, options)};
}

}  // namespace svcmap::proxy
