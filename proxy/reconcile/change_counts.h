// Numbers of changes of Services and of EndpointSlices. Changes of other kinds are rare and not
// counted.
#pragma once

#include <cstdint>

#include "proxy/state/objects.h"

namespace svcmap::proxy {

struct ChangeCounts {
  uint64_t services = 0;
  uint64_t slices = 0;

  void Count(Kind kind) {
    if (kind == Kind::kService) ++services;
    if (kind == Kind::kEndpointSlice) ++slices;
  }
  ChangeCounts& operator+=(const ChangeCounts& more) {
    services += more.services;
    slices += more.slices;
    return *this;
  }
  ChangeCounts& operator-=(const ChangeCounts& fewer) {
    services -= fewer.services;
    slices -= fewer.slices;
    return *this;
  }
};

}  // namespace svcmap::proxy
