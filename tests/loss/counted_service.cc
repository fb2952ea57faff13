#include "tests/loss/counted_service.h"

#include "absl/strings/str_cat.h"

namespace svcmap::testing {

std::string CountedEndpoint(int n) { return absl::StrCat("10.244.1.", 128 + n); }

std::string CountedService::cluster_ip() const { return absl::StrCat("10.96.0.", 50 + number); }

std::string CountedService::address() const {
  return load_balancer ? absl::StrCat("203.0.113.", 1 + number) : cluster_ip();
}

v1::Object CountedService::Service() const {
  AService service(key);
  service.ClusterIp(cluster_ip())
      .Port("dns", first_port == 0 ? kCountedPort : first_port, Protocol::kUdp);
  for (int i = 0; i < other_ports; ++i) {
    service.Port(absl::StrCat("other-", i), 20000 + i, Protocol::kUdp);
  }
  if (affinity_seconds != 0) service.ClientIpAffinity(affinity_seconds);
  // With the policy Local, the clients are not masqueraded.
  if (load_balancer) service.LoadBalancerIp(address()).ExternalPolicy("Local");
  for (int i = 0; i < other_ranges; ++i) service.SourceRange(absl::StrCat("100.65.", i, ".0/25"));
  if (other_ranges > 0 && permitted) service.SourceRange(kCountedSources);
  v1::Object object = service;
  if (last_port > first_port) {
    object.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(last_port);
  }
  return object;
}

v1::Object CountedService::Slice() const {
  ASlice slice(key);
  for (const int endpoint : endpoints) {
    slice.Endpoint(CountedEndpoint(endpoint), node);
    if (weighted) slice.Weight(endpoint % 2 == 0 ? 1 : 3);
  }
  for (const int endpoint : remote_endpoints) {
    slice.Endpoint(CountedEndpoint(endpoint), kOtherNode);
  }
  for (int i = 0; i < other_ports; ++i) {
    slice.Port(absl::StrCat("other-", i), 30000 + i, Protocol::kUdp);
  }
  return slice.Port("dns", target_port(), Protocol::kUdp);
}

}  // namespace svcmap::testing
