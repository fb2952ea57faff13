// Sends echo requests from random sources to random addresses, and compares the results with the
// model.
#pragma once

#include "tests/differential/dice.h"
#include "tests/differential/probes.h"
#include "tests/differential/reference_model.h"

namespace svcmap::testing {

void Ping(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
          ProbeReport& report);

}  // namespace svcmap::testing
