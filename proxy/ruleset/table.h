// The constant ruleset: one table per family, created once. Services and endpoints come and go as
// elements of the sets below; chains, rules and sets never change (docs/decisions/0001). The one
// exception: a session affinity timeout that no Service had before brings its chains (0002).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nft/model/table.h"
#include "nft/types/ip_address.h"

namespace svcmap::proxy {

inline constexpr std::string_view kTableName = "svcmap";
inline constexpr uint32_t kMasqueradeMark = 0x4000;   // S-99
inline constexpr uint32_t kAffinityRecords = 131072;  // Of all Services of a family together.
// Addresses and ports of a family whose connections are counted. What is over that is not. They are
// forgotten after a day without a new connection.
inline constexpr uint32_t kCountedDestinations = 262144;
inline constexpr uint32_t kCountedSeconds = 86400;
// Source ranges of all Services of a family together, each counted for every load balancer IP and
// port it holds for. The kernel's set of ranges needs time that grows with the square of it, with
// one CPU held: 12 ms to load 1,000 ranges, 0.24 s for 5,000, 3.7 s for 20,000 (Linux 6.18).
inline constexpr size_t kMaxSourceRows = 4096;
// And 1 to 3 ms for each one that is taken out of a set that large.
inline constexpr size_t kMaxSourceRowsRemoved = 16;
inline constexpr uint32_t kDefaultAffinitySeconds = 10800;  // S-14

// The sets of the table, in the order of creation; names as in kube-proxy's nftables mode (S-139)
// where it has the like. kAffinity outlives the others and lists first, so it is first.
enum SetIndex : uint8_t {
  kAffinity,                // client . Service port : choice; written by rules
  kMarker,                  // mark 1 : digest and generation of what the table holds
  kPodSources,              // address ranges that pods have
  kMasqueradeSources,       // address ranges whose traffic to clusterIPs is masqueraded
  kClusterIps,              // address; every clusterIP in use
  kServiceCidrs,            // address ranges
  kServiceIps,              // address . protocol . port : descriptor; node ports, too
  kEndpoints,               // group . slot : address . port
  kLocalSets,               // descriptor with policy Local : descriptor of its local set
  kNoEndpointServices,      // address . protocol . port; rejected
  kHairpinConnections,      // address . address . protocol . port of local endpoints
  kFirewallIps,             // address . protocol . port; only for sources in:
  kFirewallSources,         // address . protocol . port . source range
  kAffinitySlots,           // group . slot : choice
  kAffinityEndpoints,       // choice : address . port, in the cluster set
  kAffinityLocalEndpoints,  // the same for the local set
  kSetCount,
  // Only with RulesetOptions::count_connections. Rules write it, nobody has rows in it, and so it
  // is not counted among the others.
  kServiceConnections = kSetCount,  // address . protocol . port, with a counter
};

// How pods are told from other sources (S-64..S-68).
enum class DetectLocal : uint8_t {
  kClusterCidr,  // Source in cluster_cidr.
  kNodeCidr,     // Source in the node's podCIDRs, as they are now.
  kInterface,    // Came in by an interface named like `interface`.
};

struct RulesetOptions {
  DetectLocal detect_local = DetectLocal::kClusterCidr;
  // By Index(Family). Absent in kClusterCidr mode: nobody is told apart and no clusterIP traffic is
  // masqueraded (S-71).
  std::optional<IpPrefix> cluster_cidr[2];
  std::string interface;                       // "cni0", or "veth*" for all that begin like that.
  bool masquerade_all = false;                 // S-90
  bool count_connections = false;              // By what they are sent to (docs/decisions/0009).
  uint32_t masquerade_mark = kMasqueradeMark;  // One bit (S-300).
};

// The block of all pods where only it decides whose traffic to clusterIPs is masqueraded: it stands
// in the rule then, which costs a packet 0.2 us less than a look-up in `masquerade-sources`.
std::optional<IpPrefix> ConstantPods(const RulesetOptions& options, Family family);

// `timers`: the affinity timeouts in seconds, at most kMaxTimers, by Descriptor::Sticky::timer.
nft::TableSpec MakeTable(Family family, const RulesetOptions& options,
                         std::span<const uint32_t> timers = {&kDefaultAffinitySeconds, 1});

// Of both families, without timers.
nft::TableSpecs MakeTables(const RulesetOptions& options);

}  // namespace svcmap::proxy
