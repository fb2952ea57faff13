// Plans and Services that are so large that their changes are divided into several commits.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "proxy/applied/applied.h"

namespace svcmap::proxy {

// Returns the units (see TakeUnits) of the Services in `changes` that have, or had, more than
// kMaxElementsTogether elements in `service-ips` and `endpoints`. Does not return Services in which
// the name of a port moves to another port number. Port ranges are not divided.
absl::flat_hash_set<std::string> LargeServiceUnits(const Applied::ServiceChanges& changes,
                                                   const Applied& applied);

// Returns the groups (as GroupUnit) of ports with session affinity that packets reach before these
// changes. A new slot of such a group must not be added before the endpoint that it leads to: a
// packet that finds no endpoint in three attempts is dropped.
absl::flat_hash_set<std::string> AffinityGroupsInUse(const Applied::ServiceChanges& changes,
                                                     const Applied& applied);

}  // namespace svcmap::proxy
