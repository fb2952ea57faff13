// New connections while an opponent works on the rules they pass.
#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "tests/bench/commands/contenders.h"
#include "tests/bench/packets/latencies.h"

namespace svcmap::bench {

enum class Disturbance {
  kSync,    // One full sync after the other. svcmapd writes only what is different: it is told of
            // the cluster with other endpoints and of itself in turns.
  kRepair,  // The ruleset is flushed once a second. Of svcmap only; the others would notice that
            // up to an hour later, at their next full sync (S-149). "direct" has nothing to flush.
};

struct DisturbanceOptions {
  int per_second = 1000;  // New connections, to the last Service.
  int seconds = 5;        // Without, and again with the disturbance; more if one takes longer.
};

struct Disturbed {
  Latencies quiet, during;
  int times = 0;  // How often there was one; 0 if this opponent has none.
};

// The same Services, and none of the endpoints.
Cluster WithOtherEndpoints(Cluster cluster);

// Ends with `cluster` loaded, as it began.
absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit);

}  // namespace svcmap::bench
