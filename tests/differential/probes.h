// Selects the connections of a scenario and compares their results with the model.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_PROBES_H_
#define SVCMAP_TESTS_DIFFERENTIAL_PROBES_H_

#include <map>
#include <string>
#include <vector>

#include "tests/differential/affinity_memory.h"
#include "tests/differential/dice.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/reference_model.h"

namespace svcmap::testing {

// Results of a scenario's connections. The test connects from every source to every address and
// port of a Service, and to some unassigned addresses. Successful connections are repeated. All
// sources send in parallel. Contains one string per difference from the model.
struct ProbeReport {
  std::map<std::string, size_t> count;  // Number of probes by Prediction::why.
  std::vector<std::string> mismatches;
};
ProbeReport Probe(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
                  AffinityMemory& affinity);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_PROBES_H_
