#include "proxy/desired/node_rows.h"

#include "proxy/desired/ranges.h"

namespace svcmap::proxy {
std::optional<IpPrefix> PodBlock(const RulesetOptions& options, const Node* node, Family family) {
  switch (options.detect_local) {
    case DetectLocal::kClusterCidr:
      return options.cluster_cidr[Index(family)];
    case DetectLocal::kNodeCidr:
      return node != nullptr ? node->pod_cidr[Index(family)] : std::nullopt;
    case DetectLocal::kInterface:
      return std::nullopt;
  }
  return std::nullopt;
}

namespace {

Row PingTargetRow(const IpAddress& target) {
  constexpr uint8_t kIcmp = 1, kIcmpv6 = 58;
  Row row;
  row.set = {target.family(), kPingTarget};
  row.key.AppendU8(target.family() == Family::kIpv4 ? kIcmp : kIcmpv6);
  row.data.Append(target.bytes());
  return row;
}

}  // namespace

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
  for (const std::optional<IpAddress>& target : facts.ping_target) {
    if (target) rows.push_back(PingTargetRow(*target));
  }
  if (options.detect_local == DetectLocal::kInterface) return rows;
  for (const Family family : kFamilies) {
    const std::optional<IpPrefix> pods = PodBlock(options, node, family);
    if (pods) add(kPodSources, MergeRanges({*pods}));
    const IpPrefix everybody = *IpPrefix::Parse(family == Family::kIpv4 ? "0.0.0.0/0" : "::/0");
    if (options.masquerade_all) {  // All sources are masqueraded (S-90).
      add(kMasqueradeSources, MergeRanges({everybody}));
    } else if (pods && !ConstantPods(options, family)) {
      // Without local traffic detection, no traffic is masqueraded (S-71).
      add(kMasqueradeSources, Outside(*pods));
    }
  }
  return rows;
}

}  // namespace svcmap::proxy
