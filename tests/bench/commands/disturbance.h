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
  // The benchmark flushes the ruleset once per second. Of all compared implementations, only svcmap
  // repairs a flushed ruleset. The real kube-proxy would detect the damage at its next full sync,
  // up to an hour later (S-149). The compared implementation "direct" has no rules to flush.
  kRepair,
};

struct DisturbanceOptions {
  int per_second = 1000;  // Number of new connections per second to the last Service.
  // Duration in seconds of each of the two phases. The first phase has no disturbances. The second
  // phase takes longer if a disturbance takes longer than `seconds`.
  int seconds = 5;
};

struct Disturbed {
  Latencies quiet, during;
  // Number of disturbances. 0 if the compared implementation does not support the disturbance.
  int times = 0;
};

// Returns a cluster with the same Services but different endpoints.
Cluster WithOtherEndpoints(Cluster cluster);

// Measures connections to the last Service. When the function returns, the compared implementation
// has loaded `cluster` again.
absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit);

}  // namespace svcmap::bench
