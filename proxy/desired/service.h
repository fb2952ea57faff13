// What we want in the kernel for one Service. Pure but for the group numbers it takes.
#pragma once

#include <string>
#include <vector>

#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct DesiredService {
  ServiceRows rows;                  // Empty: nothing of it is programmed.
  std::vector<uint32_t> new_groups;  // Taken from the allocator for it.
  std::vector<uint32_t> old_groups;  // Of `before`, no longer used.
  std::vector<Finding> findings;     // What of the Service is not programmed, and why.
};

// What all Services depend on.
struct DesiredContext {
  const Claims& claims;
  const std::vector<IpAddress>& node_port_addresses;  // Where nodePorts are accepted.
  const NodePlace& node;
};

// `entry` may be null (the Service is gone) and so may `before` (what is applied of it). Slots and
// groups of ports that stay are kept, so that only what changed differs.
DesiredService MakeDesiredService(const ServiceEntry* entry, const DesiredContext& context,
                                  const ServiceRows* before, GroupAllocator& groups);

}  // namespace svcmap::proxy
