#include "tests/loss/counted_service.h"

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"

namespace svcmap::testing {

std::string CountedEndpoint(int n) { return absl::StrCat("10.244.1.", 128 + n); }

std::string CountedService::cluster_ip() const { return ClusterIp(50 + number).v4; }

v1::Object CountedService::Service() const {
  AService service(key);
  service.ClusterIp(cluster_ip()).Port("dns", kCountedPort, Protocol::kUdp);
  if (affinity_seconds != 0) service.ClientIpAffinity(affinity_seconds);
  return service;
}

v1::Object CountedService::Slice() const {
  ASlice slice(key);
  for (const int endpoint : endpoints) slice.Endpoint(CountedEndpoint(endpoint), kAgentNode);
  return slice.Port("dns", target_port(), Protocol::kUdp);
}

}  // namespace svcmap::testing
