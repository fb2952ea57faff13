// The constant ruleset: one table per family, created once. Services and endpoints come and go as
// elements of the sets below; chains, rules and sets never change (docs/decisions/0001).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "nft/model/table.h"
#include "nft/types/ip_address.h"

namespace svcmap::proxy {

inline constexpr std::string_view kTableName = "svcmap";
inline constexpr uint32_t kMasqueradeMark = 0x4000;  // S-99

// The sets of the table, in the order of creation; names as in kube-proxy's nftables mode (S-139).
enum SetIndex : uint8_t {
  kMarker,              // mark 1 : digest and generation of what the table holds
  kClusterIps,          // address; every clusterIP in use
  kServiceCidrs,        // address ranges
  kServiceIps,          // address . protocol . port : descriptor; node ports, too
  kEndpoints,           // group . slot : address . port
  kNoEndpointServices,  // address . protocol . port; rejected
  kHairpinConnections,  // address . address . protocol . port of local endpoints
  kSetCount,
};

struct RulesetOptions {
  // Pods are the sources in this block (S-64); absent: nobody is told apart and no clusterIP
  // traffic is masqueraded (S-71).
  std::optional<IpPrefix> cluster_cidr[2];  // By Index(Family).
};

nft::TableSpec MakeTable(Family family, const RulesetOptions& options);

}  // namespace svcmap::proxy
