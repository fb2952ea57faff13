#include "proxy/desired/node_rows.h"

#include "proxy/desired/ranges.h"

namespace svcmap::proxy {

std::optional<IpPrefix> PodBlock(const RulesetOptions& options, const Node* node, Family family) {
  if (options.detect_local == DetectLocal::kClusterCidr) return options.cluster_cidr[Index(family)];
  if (options.detect_local == DetectLocal::kInterface || node == nullptr) return std::nullopt;
  return node->pod_cidr[Index(family)];
}

std::vector<Row> NodeRows(const RulesetOptions& options, const Node* node, const NodeFacts& facts,
                          const Store& store) {
  std::vector<IpPrefix> service_cidrs;
  for (const auto& [name, cidr] : store.service_cidrs()) {
    service_cidrs.insert(service_cidrs.end(), cidr->cidrs.begin(), cidr->cidrs.end());
  }
  std::vector<Row> rows = RangeRows(kServiceCidrs, MergeRanges(service_cidrs));
  const auto add = [&rows](SetIndex set, const std::vector<AddressRange>& ranges) {
    for (Row& row : RangeRows(set, ranges)) rows.push_back(std::move(row));
  };
  constexpr uint8_t kIcmp[] = {1, 58};  // IANA numbers of ICMP and ICMPv6.
  for (const Family family : kFamilies) {
    const std::optional<IpAddress>& target = facts.ping_target[Index(family)];
    if (!target) continue;
    rows.push_back({.set = {family, kPingTarget},
                    .key = nft::FieldBytes().AppendU8(kIcmp[Index(family)]),
                    .data = nft::FieldBytes().Append(target->bytes())});
  }
  if (options.detect_local == DetectLocal::kInterface) return rows;
  for (const Family family : kFamilies) {
    const std::optional<IpPrefix> pods = PodBlock(options, node, family);
    if (pods) add(kPodSources, MergeRanges({*pods}));
    if (options.masquerade_all) {  // All sources are masqueraded (S-90).
      add(kMasqueradeSources, MergeRanges({IpPrefix(IpAddress::Unspecified(family), 0)}));
    } else if (pods && !ConstantPods(options, family)) {
      // Without local traffic detection, no traffic is masqueraded (S-71).
      add(kMasqueradeSources, Outside(*pods));
    }
  }
  return rows;
}

}  // namespace svcmap::proxy
