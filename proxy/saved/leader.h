// The controller session with the highest epoch that the agent has accepted.
#pragma once

#include <cstdint>
#include <string>

namespace svcmap::proxy {

struct Leader {
  uint64_t epoch = 0;  // 0 if no controller has sent an epoch.
  std::string name;
  std::string instance;
  friend bool operator==(const Leader&, const Leader&) = default;
};

}  // namespace svcmap::proxy
