// The compared implementation "direct" uses no proxy and is the lower bound for packet latency.
#pragma once

#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

std::unique_ptr<Opponent> MakeDirect();

}  // namespace svcmap::bench
