// The desired kernel state of one Service. The functions are pure, except that they allocate
// numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/desired/found_ports.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"
#include "proxy/desired/sticky.h"
#include "proxy/node/node_findings.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct DesiredService {
  ServiceRows rows;                 // Empty if the Service is not programmed.
  std::vector<Number> new_numbers;  // Numbers that were allocated for this Service.
  std::vector<Number> old_numbers;  // Numbers of `before` that are no longer used.
  std::vector<Finding> findings;    // Parts of the Service that are not programmed, with reasons.
};

// Node properties that affect Services.
struct NodeFacts {
  NodePlace place;
  std::vector<IpAddress> node_port_addresses;  // Node addresses that accept nodePort traffic.
  IpAddress own_ip[2];       // Node IPs by Index(Family). Loopback address if unknown (S-118).
  bool hash_picks = true;    // The rules can pick endpoints by hash.
  bool port_ranges = false;  // The rules support port ranges.
  bool answer_ping = false;  // The node answers echo requests to Service addresses.
  // Node addresses to which echo requests are translated, by Index(Family).
  std::optional<IpAddress> ping_target[2];
  // How TCP connections to removed endpoints are reset.
  TcpResets tcp_resets = TcpResets::kOff;
  // Whether TCP connections to removed endpoints are reset. A Service can override this setting.
  bool reset_stale_tcp = false;
  ReservedAddresses reserved;

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// Inputs shared by all Services.
struct DesiredContext {
  const Claims& claims;
  const NodeFacts& node;
  Numbers& numbers;
  AffinityTimers& timers;
  const TimerUses& timer_uses;  // Uses of affinity timeouts by the committed rows of all Services.
  // Ports in the tables of a previous run, for Services without applied rows. May be null.
  const FoundPorts* found = nullptr;
  // Maximum number of the Service's source ranges, by Index(Family).
  size_t source_rows[2] = {kMaxSourceRows, kMaxSourceRows};
};

// Computes the desired state of one Service. `entry` is null if the Service is deleted. `before`
// contains the Service's applied rows and may be null. Unchanged ports keep their slots and
// numbers, so that the update is minimal.
DesiredService MakeDesiredService(const ServiceEntry* entry, DesiredContext& context,
                                  const ServiceRows* before);

// Returns the numbers that are allocated to the ports of the Service.
std::vector<Number> NumbersOf(const ServiceRows& service);

}  // namespace svcmap::proxy
