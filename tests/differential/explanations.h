// Compares the agent's explanations of random connections with the model.
#pragma once

#include <vector>

#include "tests/differential/dice.h"
#include "tests/differential/differential_world.h"
#include "tests/differential/probes.h"
#include "tests/differential/reference_model.h"
#include "tests/support/agent.h"

namespace svcmap::testing {

void CompareExplanations(Agent& agent, const std::vector<Source>& sources,
                         const ReferenceModel& model, Dice& dice, ProbeReport& report);

}  // namespace svcmap::testing
