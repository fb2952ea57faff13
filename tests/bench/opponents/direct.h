// The compared implementation "direct" uses no proxy. It is the lower bound of the packet path.
#pragma once

#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

std::unique_ptr<Opponent> MakeDirect();

}  // namespace svcmap::bench
