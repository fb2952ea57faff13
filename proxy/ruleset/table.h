// The constant ruleset: one table per family, created once. Services and endpoints are elements of
// the sets below. Chains, rules and set definitions do not change when Services change
// (docs/decisions/0001). Only a new session affinity timeout adds chains (docs/decisions/0002).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nft/model/table.h"
#include "nft/types/ip_address.h"

namespace svcmap::proxy {

inline constexpr std::string_view kTableName = "svcmap";
inline constexpr uint32_t kMasqueradeMark = 0x4000;  // Same value as in kube-proxy (S-99).
// Maximum number of affinity records per family, for all Services together.
inline constexpr uint32_t kAffinityRecords = 131072;
// Maximum number of destinations (address and port) per family whose connections are counted.
// Connections to additional destinations are not counted. The kernel removes a counter after a day
// without a new connection.
inline constexpr uint32_t kCountedDestinations = 262144;
inline constexpr uint32_t kCountedSeconds = 86400;
// Maximum number of echo requests to Service addresses that the node answers per second and family.
// A burst can contain as many requests.
inline constexpr uint32_t kPingsPerSecond = 1000;
// Maximum number of source ranges per family, for all Services together. Each range counts once per
// load balancer IP and port, and once per load balancer IP and protocol for all port ranges. The
// time to load ranges is quadratic in their number (docs/decisions/0002).
inline constexpr size_t kMaxSourceRows = 4096;
// Returns whether `removed` of `rows` source ranges are too many to be deleted one by one. The time
// of a deletion grows with the size of the set and is 1 to 3 ms in a set of maximum size.
constexpr bool RemovesManySourceRows(size_t removed, size_t rows) {
  return removed * rows > 16 * kMaxSourceRows;
}
// Three hours, the default in Kubernetes (S-14).
inline constexpr uint32_t kDefaultAffinitySeconds = 10800;

// The sets of the table, in order of creation. Sets that also exist in kube-proxy's nftables mode
// have the same names (S-139). kAffinity comes first, because the kernel lists this set first after
// all other sets were recreated.
enum SetIndex : uint8_t {
  kAffinity,                // client . Service port : endpoint number; only rules add elements
  kMarker,                  // mark 1 : digest and generation of the table's content
  kPodSources,              // address ranges of pods
  kMasqueradeSources,       // address ranges whose traffic to clusterIPs is masqueraded
  kClusterIps,              // address of each clusterIP in use
  kServiceCidrs,            // address ranges
  kServiceIps,              // address . protocol . port : descriptor; includes nodePorts
  kEndpoints,               // group . slot : address . port
  kLocalSets,               // descriptor with policy Local : descriptor of the local endpoint set
  kNoEndpointServices,      // address . protocol . port; new connections are rejected
  kNoEndpointNodePorts,     // node address . protocol . nodePort; rejected in hook input only
  kHairpinConnections,      // address . address . protocol . port of local endpoints
  kFirewallIps,             // address . protocol . port; sources restricted to kFirewallSources
  kFirewallSources,         // address . protocol . port . source range
  kAffinitySlots,           // group . slot : endpoint number
  kAffinityEndpoints,       // endpoint number : address . port, for the cluster endpoint set
  kAffinityLocalEndpoints,  // endpoint number : address . port, for the local endpoint set
  kSelfEndpoints,           // address . protocol of endpoints that are their own destination
  kSetCount,
  // Sets that exist only with certain options. See RowSetCount(RulesetOptions).
  kPingAddresses = kSetCount,  // address of each Service whose echo requests the node answers
  kPingTarget,                 // protocol ICMP or ICMPv6 : address of the node
  kResetServices,  // address . tcp . port; connections without conntrack entry are reset
  // Port ranges. A range consists of blocks of 256 ports, and of single ports at its edges.
  kRangePorts,             // address . protocol . port : descriptor
  kRangeBlocks,            // address . protocol . high byte of the port : descriptor
  kRangeEndpoints,         // group . slot : address
  kNoEndpointRangePorts,   // address . protocol . port; new connections are rejected
  kNoEndpointRangeBlocks,  // address . protocol . high byte of the port; also rejected
  kRangeHairpins,          // address . address . protocol of local endpoints
  kRangeFirewallIps,       // address . protocol; sources restricted to kRangeFirewallSources
  kRangeFirewallSources,   // address . protocol . source range
  // Endpoints of port ranges with session affinity. The records and slots are in kAffinity and
  // kAffinitySlots.
  kRangeAffinityEndpoints,       // endpoint number : address, for the cluster endpoint set
  kRangeAffinityLocalEndpoints,  // endpoint number : address, for the local endpoint set
  kRowSetCount,                  // Number of sets with rows, including sets of options.
};

// Names of the sets that exist only with RulesetOptions::count_connections. The key is address .
// protocol . port. For port ranges, the key is address . protocol, so that a range does not fill
// the set. Only rules add elements, so the sets have no rows.
inline constexpr std::string_view kServiceConnectionsName = "service-connections";
inline constexpr std::string_view kRangeConnectionsName = "range-connections";

// Returns true for the sets whose elements are address ranges.
inline bool HasAddressRanges(uint8_t set) {
  return set == kPodSources || set == kMasqueradeSources || set == kServiceCidrs;
}

// The sets with the source ranges of load balancer IPs.
inline constexpr SetIndex kSourceSets[] = {kFirewallSources, kRangeFirewallSources};
inline bool HasSourceRanges(uint8_t set) {
  return set == kFirewallSources || set == kRangeFirewallSources;
}

// Returns true for the maps of port ranges with endpoints.
inline bool HasRangePorts(uint8_t set) { return set == kRangePorts || set == kRangeBlocks; }

// Returns true for the sets with the endpoints of ports with session affinity.
inline bool HasStickyEndpoints(uint8_t set) {
  return set == kAffinityEndpoints || set == kAffinityLocalEndpoints ||
         set == kRangeAffinityEndpoints || set == kRangeAffinityLocalEndpoints;
}

// Returns the number of sets of `table` that can have rows. These are the sets with the lowest
// indexes.
uint8_t RowSetCount(const nft::TableSpec& table);

// Method for detecting pod traffic (S-64 to S-68).
enum class DetectLocal : uint8_t {
  kClusterCidr,  // The source is in cluster_cidr.
  kNodeCidr,     // The source is in the node's current podCIDRs.
  kInterface,    // The packet arrived on an interface that matches `interface`.
};

// Method for resetting TCP connections whose conntrack entry is deleted. Depends on the sysctl
// nf_conntrack_tcp_loose.
enum class TcpResets : uint8_t {
  kOff,
  // nf_conntrack_tcp_loose=1: a segment without a conntrack entry is new and is translated to an
  // endpoint, whose kernel resets the connection. Rules reset only connections to Services without
  // endpoints.
  kLoose,
  // nf_conntrack_tcp_loose=0: a segment without a conntrack entry is invalid and is not translated.
  // Rules reset connections to the destinations in kResetServices.
  kStrict,
};

// Rules that exist only while Services need them. They change at run time, so they are only in
// chains that always exist.
struct RulesInUse {
  bool resets = true;          // True if the rules of RulesetOptions::tcp_resets exist.
  bool self_endpoints = true;  // True if the rules that look up kSelfEndpoints exist.

  friend bool operator==(const RulesInUse&, const RulesInUse&) = default;
};

struct RulesetOptions {
  DetectLocal detect_local = DetectLocal::kClusterCidr;
  // Pod CIDR by Index(Family). If absent in kClusterCidr mode, local traffic is not detected, and
  // no clusterIP traffic is masqueraded (S-71).
  std::optional<IpPrefix> cluster_cidr[2];
  std::string interface;           // "cni0", or "veth*" for all interfaces with this prefix.
  bool masquerade_all = false;     // True if all traffic to clusterIPs is masqueraded (S-90).
  bool count_connections = false;  // True if --service-counters is set (docs/decisions/0009).
  TcpResets tcp_resets = TcpResets::kOff;
  RulesInUse rules_in_use;
  bool hash_picks = true;  // True if Services can select endpoints by hash.
  // True if a missed lookup in a map with descriptors is repeated (docs/decisions/0011). Required
  // if the kernel can miss a key whose data a commit replaces: before Linux 6.17, except
  // for 6.12.48 and newer versions of 6.12.
  bool repeat_lookups = true;
  bool answer_ping = false;  // True if echo requests to Service addresses are answered.
  bool port_ranges = false;  // True if Service ports can be ranges.
  uint32_t masquerade_mark = kMasqueradeMark;  // Exactly one bit must be set (S-300).
};

// Number of rules for a lookup of a descriptor. The second rule is reached only after a miss.
inline int Lookups(const RulesetOptions& options) { return options.repeat_lookups ? 2 : 1; }

// Returns the number of sets that can have rows. With an option, the sets of options with a smaller
// SetIndex exist even if they are not used, because SetIndex is the index of a set in the table.
uint8_t RowSetCount(const RulesetOptions& options);

// Returns the index of the set `service-connections`, which exists only with `count_connections`.
uint8_t ConnectionCountSet(const RulesetOptions& options);
// Returns the index of the set `range-connections`, which exists only with `count_connections` and
// `port_ranges`.
uint8_t RangeConnectionCountSet(const RulesetOptions& options);

// Returns the pod CIDR if only this CIDR determines which clusterIP traffic is masqueraded. The
// masquerade rule then contains the CIDR, which saves 0.2 us per packet compared to a lookup in
// `masquerade-sources`.
std::optional<IpPrefix> ConstantPods(const RulesetOptions& options, Family family);

// Returns whether traffic to clusterIPs can be masqueraded.
bool MasqueradesClusterIps(const RulesetOptions& options);

// `timers` contains the affinity timeouts in seconds, at most kMaxTimers, indexed by
// Descriptor::Sticky::timer.
nft::TableSpec MakeTable(Family family, const RulesetOptions& options,
                         std::span<const uint32_t> timers = {&kDefaultAffinitySeconds, 1});

// Returns the tables of both families with the default affinity timeout.
nft::TableSpecs MakeTables(const RulesetOptions& options);

}  // namespace svcmap::proxy
