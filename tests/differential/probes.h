// Which connections are tried in a scenario, and whether what came back is what the model says.
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

// From every source to every address and port that some Service owns, several times where that
// succeeds, and to some that nobody owns. Sends them, all sources at once, and returns what the
// model disagrees with, one text for each.
struct ProbeReport {
  std::map<std::string, size_t> count;  // By the rule that decided, Prediction::why.
  std::vector<std::string> mismatches;
};
ProbeReport Probe(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
                  AffinityMemory& affinity);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_PROBES_H_
