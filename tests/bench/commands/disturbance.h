// New connections while an opponent rewrites or repairs the rules.
#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "tests/bench/commands/contenders.h"
#include "tests/bench/packets/latencies.h"

namespace svcmap::bench {

enum class Disturbance {
  // Repeated full syncs. svcmapd writes only differences, so it alternates between two clusters
  // with different endpoints.
  kSync,
  // The ruleset is flushed once per second. Only svcmap repairs it. The other opponents detect the
  // damage at their next full sync, up to an hour later (S-149). "direct" has no rules.
  kRepair,
};

struct DisturbanceOptions {
  int per_second = 1000;  // New connections per second to the last Service.
  // Duration of each phase, without and with the disturbance. Longer if one disturbance takes
  // longer.
  int seconds = 5;
};

struct Disturbed {
  Latencies quiet, during;
  int times = 0;  // Number of disturbances, or 0 if this opponent has none.
};

// Returns the same Services with other endpoints.
Cluster WithOtherEndpoints(Cluster cluster);

// At the end, `cluster` is loaded again.
absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit);

}  // namespace svcmap::bench
