// Measures new connections while a compared implementation rewrites or repairs its rules.
#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "tests/bench/commands/contenders.h"
#include "tests/bench/packets/latencies.h"

namespace svcmap::bench {

enum class Disturbance {
  // The compared implementation repeats full syncs. svcmapd writes only differences, so the
  // benchmark alternates between two clusters with different endpoints.
  kSync,
  // The ruleset is flushed once per second. Only svcmap repairs the ruleset. The other compared
  // implementations would detect the damage at their next full sync, up to an hour later (S-149).
  // "direct" has no rules.
  kRepair,
};

struct DisturbanceOptions {
  int per_second = 1000;  // Number of new connections per second to the last Service.
  // Duration in seconds of each phase, without and with the disturbance. The second phase is longer
  // if a single disturbance takes longer.
  int seconds = 5;
};

struct Disturbed {
  Latencies quiet, during;
  int times = 0;  // Number of disturbances. 0 if this compared implementation has no disturbances.
};

// Returns a cluster with the same Services and other endpoints.
Cluster WithOtherEndpoints(Cluster cluster);

// Measures connections to the last Service. At the end, the compared implementation has loaded
// `cluster` again.
absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit);

}  // namespace svcmap::bench
