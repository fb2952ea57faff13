// Sends echo requests from random sources to random addresses, and compares the results with the
// model.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_PINGS_H_
#define SVCMAP_TESTS_DIFFERENTIAL_PINGS_H_

#include "tests/differential/dice.h"
#include "tests/differential/probes.h"
#include "tests/differential/reference_model.h"

namespace svcmap::testing {

void Ping(const std::vector<Source>& sources, const ReferenceModel& model, Dice& dice,
          ProbeReport& report);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_PINGS_H_
