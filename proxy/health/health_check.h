// What load balancers are told when they ask a node about one Service (healthCheckNodePort,
// semantics.md 6.2). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/state/store.h"

namespace svcmap::proxy {

// Arrays by Index(Family).
struct HealthCheck {
  uint16_t port = 0;
  bool families[2] = {};             // Where somebody listens (S-259).
  uint32_t local_endpoints[2] = {};  // S-262

  friend bool operator==(const HealthCheck&, const HealthCheck&) = default;
};

// By the Service's key; nothing: it has none.
using HealthCheckChanges = std::vector<std::pair<std::string, std::optional<HealthCheck>>>;

// Of a Service; `entry` may be null. Of several Services that want the same port, the one that
// `claims` gives it to has it, the others have none.
std::optional<HealthCheck> HealthCheckOf(const ServiceEntry* entry, const Claims& claims);

}  // namespace svcmap::proxy
