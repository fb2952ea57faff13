// What we want in the kernel for one Service. Pure but for the numbers it takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"
#include "proxy/desired/sticky.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct DesiredService {
  ServiceRows rows;                 // Empty: nothing of it is programmed.
  std::vector<Number> new_numbers;  // Taken for it.
  std::vector<Number> old_numbers;  // Of `before`, no longer used.
  std::vector<Finding> findings;    // What of the Service is not programmed, and why.
};

// The node, as Services depend on it.
struct NodeFacts {
  NodePlace place;
  std::vector<IpAddress> node_port_addresses;  // Where nodePorts are accepted.
  IpAddress own_ip[2];                         // By Index(Family); loopback if unknown (S-118).

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// What all Services depend on.
struct DesiredContext {
  const Claims& claims;
  const NodeFacts& node;
  Numbers& numbers;
  AffinityTimers& timers;
  AffinityMemory& memory;
  // By Index(Family): so many source ranges may the Service have.
  size_t source_rows[2] = {kMaxSourceRows, kMaxSourceRows};
};

// `entry` may be null (the Service is gone) and so may `before` (what is applied of it). Slots and
// numbers of ports that stay are kept, so that only what changed differs.
DesiredService MakeDesiredService(const ServiceEntry* entry, DesiredContext& context,
                                  const ServiceRows* before);

// The numbers that its ports hold.
std::vector<Number> NumbersOf(const ServiceRows& service);

}  // namespace svcmap::proxy
