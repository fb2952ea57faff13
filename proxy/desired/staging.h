// Staged endpoint sets: endpoint sets that no destination leads to yet.
//
// If a change adds many endpoints to new groups, several plans add them in portions, so that plans
// for other Services come between them. Until the last portion, the Service's rows are its previous
// rows and, after these, one staged port for each port with new groups. The last plan switches all
// ports to the new groups at once. The rows contain the progress: a plan continues with what the
// applied rows have staged, also after a restart.
#pragma once

#include <cstddef>
#include <optional>

#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Returns true for a port that has only staged endpoint sets.
bool IsStaged(const PortRows& port);

// Returns the staged endpoint set that `wanted` continues, or null: a set of `service` for the same
// port (family, name, protocol, single port or range), whose slots are the first slots of `wanted`.
const EndpointSet* FindStaged(const ServiceRows& service, const PortRows& port, bool local,
                              const std::vector<EndpointAddress>& wanted);

// Returns the rows of the next portion: those of `before`, and at most `portion` more endpoints and
// hairpin pairs of `after`. Returns nullopt if `after` has at most `portion` more of them in new
// groups, so that `after` can be the next rows. `before` may be null. Ports with session affinity
// are not staged, and Services with more than kMaxStagedPorts ports are not, because each portion
// copies all ports.
inline constexpr size_t kMaxStagedPorts = 1000;
std::optional<ServiceRows> NextPortion(const ServiceRows* before, const ServiceRows& after,
                                       size_t portion);

}  // namespace svcmap::proxy
