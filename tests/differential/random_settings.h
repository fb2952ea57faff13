// Settings of the agent that scenarios are run with. A seed gives one; there are few enough that
// many scenarios share one agent.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_RANDOM_SETTINGS_H_
#define SVCMAP_TESTS_DIFFERENTIAL_RANDOM_SETTINGS_H_

#include <string>
#include <vector>

#include "tests/differential/dice.h"
#include "tests/differential/reference_model.h"

namespace svcmap::testing {

struct ScenarioSettings {
  ProxySettings proxy;
  std::vector<std::string> pod_cidrs;  // Of the Node; fixed, as agents may end when they change.

  std::vector<std::string> Flags() const;  // Of svcmapd.
  std::string ToString() const;            // The same for the same settings, and only for them.
};

ScenarioSettings RandomSettings(Dice& dice);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_RANDOM_SETTINGS_H_
