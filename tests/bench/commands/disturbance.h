// New connections while an opponent works on the rules they pass.
#pragma once

#include <chrono>

#include "absl/status/statusor.h"
#include "tests/bench/commands/contenders.h"
#include "tests/bench/packets/latencies.h"

namespace svcmap::bench {

enum class Disturbance {
  kSync,    // One full sync after the other.
  kRepair,  // svcmapd: its ruleset is flushed once a second. The others would notice that at their
            // next full sync: they do one after the other, over rules that are intact.
};

struct DisturbanceOptions {
  int per_second = 1000;  // New connections, to the last Service.
  int seconds = 5;        // Without, and again with the disturbance; more if one takes longer.
};

struct Disturbed {
  Latencies quiet, during;
  int times = 0;  // How often there was one; 0 if this opponent has none.
};

absl::StatusOr<Disturbed> MeasureDisturbed(Contender& contender, const Cluster& cluster,
                                           Disturbance disturbance,
                                           const DisturbanceOptions& options,
                                           std::chrono::seconds time_limit);

}  // namespace svcmap::bench
