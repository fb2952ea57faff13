// Attacks on one connection. Each returns when the connection is closed or `until` has passed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/hostile/wire.h"

namespace svcmap::hostile {

struct Attack {
  std::string name;
  std::function<void(Wire& wire, Wire::Clock::time_point until)> run;
};

// After the connection, and the TLS handshake if there is one. Names are CamelCase.
const std::vector<Attack>& AllAttacks();

}  // namespace svcmap::hostile
