// Random settings of the agent, derived from a seed. The number of different settings is small, so
// that many scenarios share one agent.
#pragma once

#include <string>
#include <vector>

#include "tests/differential/dice.h"
#include "tests/differential/reference_model.h"

namespace svcmap::testing {

struct ScenarioSettings {
  ProxySettings proxy;
  // Pod ranges of the Node. The ranges are constant, because an agent may exit when the pod ranges
  // of its Node change.
  std::vector<std::string> pod_cidrs;

  std::vector<std::string> Flags() const;  // Returns the command-line flags of svcmapd.
  std::string ToString() const;            // Returns text that identifies these settings.
};

ScenarioSettings RandomSettings(Dice& dice);

}  // namespace svcmap::testing
