// Attacks on one connection. Each attack returns when the connection is closed or when `until` has
// passed.
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

// Returns all attacks. An attack starts after the connection is established, including the TLS
// handshake if TLS is used. Names are CamelCase.
const std::vector<Attack>& AllAttacks();

}  // namespace svcmap::hostile
