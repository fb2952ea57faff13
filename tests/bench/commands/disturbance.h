// New connections while an opponent rewrites or repairs the rules.
#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "tests/bench/commands/contenders.h"
#include "tests/bench/packets/latencies.h"

namespace svcmap::bench {

enum class Disturbance {
  kSync,    // Repeated full syncs. svcmapd writes only differences, so it receives two clusters
            // with different endpoints in turns.
  kRepair,  // The ruleset is flushed once per second. Only svcmap repairs it; the others notice it
            // at their next full sync, up to an hour later (S-149). "direct" has no rules.
};

struct DisturbanceOptions {
  int per_second = 1000;  // New connections to the last Service.
  int seconds =
      5;  // Duration without and with the disturbance; longer if one disturbance takes longer.
};

struct Disturbed {
  Latencies quiet, during;
  int times = 0;  // Number of disturbances; 0 if this opponent has none.
};

// The same Services with other endpoints.
Cluster WithOtherEndpoints(Cluster cluster);

// Leaves `cluster` loaded, as at the beginning.
absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit);

}  // namespace svcmap::bench
