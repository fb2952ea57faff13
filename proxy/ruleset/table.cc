#include "proxy/ruleset/table.h"

#include <vector>

#include "nft/expr/rule_builder.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {
namespace {

using nft::Field;
using nft::KeyPart;
using nft::NamedSet;
using nft::RuleBuilder;

// Draws of a size class before slot 0 is taken, which always holds an endpoint. A draw misses with
// a probability below 0.33, eleven in a row below 6e-6. (With eight, slot 0 of 44,103 endpoints
// would get seven times its share.)
constexpr int kSizeClassDraws = 11;

constexpr std::string_view kSetNames[kSetCount] = {
    "marker",    "cluster-ips",          "service-cidrs",       "service-ips",
    "endpoints", "no-endpoint-services", "hairpin-connections",
};

NamedSet Named(SetIndex set) { return {set, kSetNames[set]}; }

// What nft 1.0.6 stores with a map declared by
//   typeof @nh,OFFSET,BITS . numgen random mod 65536 : ip daddr . th dport
// as nested type-length-value records, and needs to list it: expression numbers of its own.
std::vector<uint8_t> EndpointsUserdata(Family family) {
  const bool v4 = family == Family::kIpv4;
  const uint8_t offset_low = v4 ? 136 : 32, offset_high = v4 ? 0 : 1, bits = v4 ? 24 : 32;
  const uint8_t address_header = v4 ? 12 : 13, address_field = v4 ? 12 : 9;
  return {0,           4,    0,
          0,           0,    0,  // key byte order: none
          1,           4,    0,
          0,           0,    0,  // data byte order: none
          3,           0x4c,     // typeof of the key
          0,           4,    13,
          0,           0,    0,
          1,           0x44,  // . concatenation
          0,           0x26, 0,
          4,           7,    0,
          0,           0,    1,
          0x1e,  // . . payload
          0,           4,    0,
          0,           0,    0,
          1,           4,    0,
          0,           0,    0,
          2,           4,    2,
          0,           0,    0,  // . . . unknown, network header
          3,           4,    offset_low,
          offset_high, 0,    0,
          4,           4,    bits,
          0,           0,    0,
          1,           0x1a, 0,
          4,           23,   0,
          0,           0,    1,
          0x12,  // . . numgen
          0,           4,    1,
          0,           0,    0,
          1,           4,    0,
          0,           1,    0,
          2,           4,    0,
          0,           0,    0,  // . . . random, mod 65536, offset 0
          4,           0x34,     // typeof of the data
          0,           4,    13,
          0,           0,    0,
          1,           0x2c,  // . concatenation
          0,           0x14, 0,
          4,           7,    0,
          0,           0,    1,
          0x0c,  // . . payload
          0,           4,    address_header,
          0,           0,    0,
          1,           4,    address_field,
          0,           0,    0,  // . . . ip daddr
          1,           0x14, 0,
          4,           7,    0,
          0,           0,    1,
          0x0c,  // . . payload
          0,           4,    11,
          0,           0,    0,
          1,           4,    2,
          0,           0,    0,  // . . . th dport
          6,           4,    0,
          0,           0,    0};  // data is no interval
}

// What nft stores with "type mark : ipv6_addr". Without it nft would take the key's bytes for
// network order, and load another key from its own listing.
std::vector<uint8_t> MarkerUserdata() {
  return {0, 4, 1, 0, 0, 0,   // key byte order: host
          1, 4, 2, 0, 0, 0,   // data byte order: network
          6, 4, 0, 0, 0, 0};  // data is no interval
}

std::vector<nft::SetSpec> MakeSets(Family family) {
  const bool v4 = family == Family::kIpv4;
  const Field address = v4 ? Field::kIpv4Addr : Field::kIpv6Addr;
  const std::vector<Field> service = {address, Field::kInetProto, Field::kInetService};

  std::vector<nft::SetSpec> sets(kSetCount);
  for (size_t i = 0; i < kSetCount; ++i) sets[i].name = kSetNames[i];
  sets[kMarker].key = {Field::kMark};
  sets[kMarker].data = {Field::kIpv6Addr};
  sets[kMarker].userdata = MarkerUserdata();
  sets[kClusterIps].key = {address};
  sets[kServiceCidrs].key = {address};
  sets[kServiceCidrs].interval = true;
  sets[kServiceIps].key = service;
  sets[kServiceIps].data = {address};
  sets[kServiceIps].sized = true;
  sets[kEndpoints].key = {v4 ? Field::kRaw24 : Field::kRaw32, Field::kSlot};
  sets[kEndpoints].data = {address, Field::kInetService};
  sets[kEndpoints].sized = true;
  sets[kEndpoints].typeof_text = std::string("typeof ") + (v4 ? "@nh,136,24" : "@nh,288,32") +
                                 " . numgen random mod 65536 : " + (v4 ? "ip" : "ip6") +
                                 " daddr . th dport";
  sets[kEndpoints].userdata = EndpointsUserdata(family);
  sets[kNoEndpointServices].key = service;
  sets[kHairpinConnections].key = {address, address, Field::kInetProto, Field::kInetService};
  return sets;
}

std::string PickChain(unsigned pick_class) {
  return "pick-" + std::to_string(PickCapacity(pick_class));
}

std::string DrawChain(unsigned pick_class) {
  return "draw-" + std::to_string(PickCapacity(pick_class));
}

// The vmap entries that lead descriptors of `kind` to their pick chains.
std::vector<std::pair<uint8_t, std::string>> PickVerdicts(DispatchKind kind) {
  std::vector<std::pair<uint8_t, std::string>> verdicts;
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    verdicts.emplace_back(DescriptorByte(kind, pick), PickChain(pick));
  }
  return verdicts;
}

std::vector<nft::ChainSpec> MakeChains() {
  std::vector<nft::ChainSpec> chains = {
      {"nat-prerouting", "KUBE-SERVICES from PREROUTING", {{"nat", "prerouting", -100}}},
      {"nat-output", "KUBE-SERVICES from OUTPUT", {{"nat", "output", -100}}},
      {"nat-postrouting", "KUBE-POSTROUTING", {{"nat", "postrouting", 100}}},
      {"filter-input", "KUBE-EXTERNAL-SERVICES from INPUT", {{"filter", "input", 0}}},
      {"filter-forward", "KUBE-SERVICES from FORWARD", {{"filter", "forward", 0}}},
      {"filter-output", "KUBE-SERVICES from OUTPUT", {{"filter", "output", 0}}},
      {"services", "KUBE-SERVICES and KUBE-NODEPORTS: address to descriptor", {}},
      {"dispatch", "a descriptor is in the destination: every path ends in dnat or drop", {}},
      {"external", "KUBE-EXT: masquerade, then pick", {}},
      {"mark-masq", "KUBE-MARK-MASQ", {}},
      {"service-endpoints-check", "KUBE-SERVICES (filter): without endpoints", {}},
      {"cluster-ips-check", "clusterIPs: wrong port, not allocated", {}},
      {"pick-first", "no draw hit an endpoint: the first one", {}},
  };
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    const std::string capacity = std::to_string(PickCapacity(pick));
    if (pick <= kMaxExactClass) {
      chains.push_back({PickChain(pick), "KUBE-SVC with " + capacity + " endpoints", {}});
    } else {
      chains.push_back({PickChain(pick), "KUBE-SVC with at most " + capacity + " endpoints", {}});
      chains.push_back({DrawChain(pick), "", {}});
    }
  }
  return chains;
}

class RuleList {
 public:
  explicit RuleList(Family family) : family_(family) {}
  RuleBuilder In(std::string_view chain) const { return RuleBuilder(family_, chain); }
  void Add(RuleBuilder&& builder) { rules_.push_back(builder.Build()); }
  void Add(RuleBuilder& builder) { rules_.push_back(builder.Build()); }
  std::vector<nft::RuleSpec> Take() { return std::move(rules_); }

 private:
  Family family_;
  std::vector<nft::RuleSpec> rules_;
};

// For each element that is added to a data map the kernel walks all rules that look it up (about 12
// ns each), so there is exactly one per class. An exact class misses only when two look-ups of one
// packet straddle a commit.
void AddPickRules(RuleList& rules) {
  for (unsigned pick = 1; pick <= kMaxPickClass; ++pick) {
    const std::string chain = PickChain(pick);
    if (pick <= kMaxExactClass) {
      rules.Add(rules.In(chain).DnatToRandomSlot(PickCapacity(pick), Named(kEndpoints)));
    } else {
      for (int i = 0; i < kSizeClassDraws; ++i) rules.Add(rules.In(chain).Jump(DrawChain(pick)));
      rules.Add(rules.In(DrawChain(pick)).DnatToRandomSlot(PickCapacity(pick), Named(kEndpoints)));
    }
    rules.Add(rules.In(chain).Goto("pick-first"));
  }
  rules.Add(rules.In("pick-first").DnatToRandomSlot(1, Named(kEndpoints)));
  rules.Add(rules.In("pick-first").Drop());
}

void AddNatRules(Family family, const RulesetOptions& options, RuleList& rules) {
  const nft::Key service = {KeyPart::kDestination, KeyPart::kProtocol, KeyPart::kDestinationPort};
  rules.Add(rules.In("nat-prerouting").Jump("services"));
  rules.Add(rules.In("nat-output").Jump("services"));

  if (const auto& pods = options.cluster_cidr[Index(family)]) {
    rules.Add(rules.In("services")
                  .SourceNotIn(*pods)
                  .In({KeyPart::kDestination}, Named(kClusterIps))
                  .Jump("mark-masq"));
  }
  rules.Add(rules.In("services").RewriteDestination(service, Named(kServiceIps)).Goto("dispatch"));
  rules.Add(rules.In("dispatch").GotoByFirstDestinationByte(PickVerdicts(DispatchKind::kPlain)));
  rules.Add(rules.In("dispatch")
                .DestinationIn(DescriptorPrefix(family, DispatchKind::kExternal))
                .Goto("external"));
  rules.Add(rules.In("dispatch").Drop());
  rules.Add(rules.In("external").Jump("mark-masq"));
  rules.Add(rules.In("external").GotoByFirstDestinationByte(PickVerdicts(DispatchKind::kExternal)));
  rules.Add(rules.In("external").Drop());
  rules.Add(rules.In("mark-masq").MarkOr(kMasqueradeMark));

  rules.Add(rules.In("nat-postrouting")
                .MarkHas(kMasqueradeMark)
                .MarkXor(kMasqueradeMark)
                .MasqueradeFullyRandom());
  rules.Add(rules.In("nat-postrouting")
                .ConntrackDnat()
                .In({KeyPart::kSource, KeyPart::kDestination, KeyPart::kProtocol,
                     KeyPart::kDestinationPort},
                    Named(kHairpinConnections))
                .MasqueradeFullyRandom());

  AddPickRules(rules);
}

// Only new connections are looked at: established flows are never cut (S-101).
void AddFilterRules(RuleList& rules) {
  rules.Add(rules.In("filter-input").ConntrackNew().Jump("service-endpoints-check"));
  for (const std::string_view chain : {"filter-forward", "filter-output"}) {
    rules.Add(rules.In(chain).ConntrackNew().Jump("service-endpoints-check"));
    rules.Add(rules.In(chain).ConntrackNew().Jump("cluster-ips-check"));
  }
  rules.Add(rules.In("service-endpoints-check")
                .In({KeyPart::kDestination, KeyPart::kProtocol, KeyPart::kDestinationPort},
                    Named(kNoEndpointServices))
                .RejectPortUnreachable());
  rules.Add(rules.In("cluster-ips-check")
                .In({KeyPart::kDestination}, Named(kClusterIps))
                .RejectPortUnreachable());
  rules.Add(rules.In("cluster-ips-check").In({KeyPart::kDestination}, Named(kServiceCidrs)).Drop());
}

}  // namespace

nft::TableSpec MakeTable(Family family, const RulesetOptions& options) {
  RuleList rules(family);
  AddNatRules(family, options, rules);
  AddFilterRules(rules);
  return {.family = family,
          .name = std::string(kTableName),
          .sets = MakeSets(family),
          .chains = MakeChains(),
          .rules = rules.Take()};
}

}  // namespace svcmap::proxy
