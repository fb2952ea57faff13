// Random settings of the agent by seed. There are few different settings, so that many scenarios
// share one agent.
#ifndef SVCMAP_TESTS_DIFFERENTIAL_RANDOM_SETTINGS_H_
#define SVCMAP_TESTS_DIFFERENTIAL_RANDOM_SETTINGS_H_

#include <string>
#include <vector>

#include "tests/differential/dice.h"
#include "tests/differential/reference_model.h"

namespace svcmap::testing {

struct ScenarioSettings {
  ProxySettings proxy;
  // The Node's pod ranges. They stay the same, because an agent may exit when they change.
  std::vector<std::string> pod_cidrs;

  std::vector<std::string> Flags() const;  // The command line of svcmapd.
  std::string ToString() const;            // Unique for each setting.
};

ScenarioSettings RandomSettings(Dice& dice);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_RANDOM_SETTINGS_H_
