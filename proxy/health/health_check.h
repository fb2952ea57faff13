// Responses to load balancer health checks on a Service's healthCheckNodePort. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/state/store.h"

namespace svcmap::proxy {

// Arrays are indexed by Index(Family).
struct HealthCheck {
  uint16_t port = 0;
  bool families[2] = {};             // Families in which the proxy listens (S-259).
  uint32_t local_endpoints[2] = {};  // Number of ready endpoints on this node (S-262).

  friend bool operator==(const HealthCheck&, const HealthCheck&) = default;
};

// Pairs of a Service key and the Service's health check. Nullopt if the Service has no health
// check.
using HealthCheckChanges = std::vector<std::pair<std::string, std::optional<HealthCheck>>>;

// Returns the health check of a Service. `entry` may be null. If several Services use the same
// port, only the Service that owns the port in `claims` gets a health check.
std::optional<HealthCheck> HealthCheckOf(const ServiceEntry* entry, const Claims& claims);

}  // namespace svcmap::proxy
