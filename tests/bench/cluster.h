// A made-up cluster of any size: the same Service has the same address and endpoints every time.
#pragma once

#include <cstdint>
#include <string>

#include "nft/types/family.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::bench {

struct ClusterShape {
  int services = 1000;
  int endpoints = 10;  // Per Service, in slices of at most 1000.
  Family family = Family::kIpv4;
  // Every Service has a load balancer IP, an external IP, a nodePort, traffic policy Local and
  // session affinity, and every tenth has source ranges.
  bool all_features = false;
};

// `changed`: how often its source ranges have changed.
v1::Service MakeService(const ClusterShape& shape, int service, uint32_t changed = 0);

// The slices of a Service: how many, and the one at `index`. `endpoints` may differ from the
// shape's to grow or shrink it; `replaced` is the number of endpoints that are others than at
// first.
int SliceCount(int endpoints);
v1::EndpointSlice MakeSlice(const ClusterShape& shape, int service, int index, int endpoints,
                            uint32_t replaced);

}  // namespace svcmap::bench
