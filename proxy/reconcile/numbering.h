// The numbers in map elements: endpoint groups, affinity ports and affinity timeouts. Copyable, so
// that dumps and dry runs can compute rows without allocating numbers.
#pragma once

#include <memory>

#include "proxy/applied/applied.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/service.h"
#include "proxy/desired/sticky.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct Numbering {
  Numbers numbers;
  AffinityTimers timers;
  std::shared_ptr<const FoundPorts> found;  // Null after all Services were written. See FoundPorts.

  // The result refers to the arguments and to this object.
  DesiredContext Context(const Store& store, const NodeFacts& node, const Applied& applied) {
    return {store.claims(), node, numbers, timers, applied.timer_uses(), found.get()};
  }
};

}  // namespace svcmap::proxy
