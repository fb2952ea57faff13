// The numbers in map elements: endpoint groups, affinity ports and affinity timeouts. Copyable, so
// that dumps and dry runs can compute rows without allocating numbers.
#pragma once

#include "proxy/applied/applied.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/service.h"
#include "proxy/desired/sticky.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct Numbering {
  Numbers numbers;
  AffinityTimers timers;
  AffinityMemory memory;

  // The result refers to the arguments and to this object.
  DesiredContext Context(const Store& store, const NodeFacts& node, const Applied& applied) {
    return {store.claims(), node, numbers, timers, memory, applied.timer_uses()};
  }
};

}  // namespace svcmap::proxy
