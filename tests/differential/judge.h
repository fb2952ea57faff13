// One connection that is tried in a scenario, and whether what came back is what the model says.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_JUDGE_H_
#define SVCMAP_TESTS_DIFFERENTIAL_JUDGE_H_

#include <optional>
#include <string>

#include "tests/differential/affinity_memory.h"
#include "tests/differential/reference_model.h"
#include "tests/support/answer.h"

namespace svcmap::testing {

struct TriedConnection {
  Packet packet;
  Prediction prediction;
  Answer answer;
};

bool IsV6(const std::string& ip);

// Whether no answer is expected: dropped, or perhaps sent to an endpoint where it is lost.
bool InVain(const TriedConnection& tried);

// The choice it took, if it was delivered and not lost.
std::optional<Choice> TakenChoice(const TriedConnection& tried);

// Nothing: as predicted, and remembered if its client has affinity. Else what was expected. To be
// called in the order in which they were sent.
std::optional<std::string> Judge(const TriedConnection& tried, AffinityMemory& affinity);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_JUDGE_H_
