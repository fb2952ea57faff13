// A made-up cluster of any size, and what happens to it: the same each time it is made.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/types/family.h"
#include "tests/bench/cluster/service_port.h"

namespace svcmap::bench {

enum class Mix {
  kClusterIp,   // ClusterIP Services.
  kMixed,       // Of ten Services one has a nodePort, one a load balancer IP as well, one affinity.
  kEverything,  // All have everything: external and load balancer IP, nodePort, policy Local,
                // affinity; every tenth has source ranges.
};

struct ClusterShape {
  int services = 1000;
  int endpoints = 10;  // Per Service.
  Family family = Family::kIpv4;
  Mix mix = Mix::kClusterIp;
  proxy::Protocol protocol = proxy::Protocol::kTcp;
};

// "10000x10"
absl::StatusOr<ClusterShape> ParseShape(const std::string& text);
// The same, with the mix and the family if they are not the plain ones: "10000x10-mixed-ipv6".
std::string ShapeText(const ClusterShape& shape);

// One thing that happened. `before` and `after`: what the proxies have to program; none: not there.
struct ClusterChange {
  std::optional<ServicePort> before, after;
  std::vector<v1::Change> messages;  // The same, as a controller tells it.
};

class Cluster {
 public:
  // `first`: the number of its first Service, which makes its name and addresses.
  explicit Cluster(const ClusterShape& shape, int first = 0);

  const ClusterShape& shape() const { return shape_; }
  // As it is now. The position of a Service here is the one that proxies with lists give it.
  const std::vector<ServicePort>& ports() const { return ports_; }
  size_t endpoint_count() const;

  // `position` in ports(). The address that comes was never used before; the one that goes is the
  // first, or the last.
  ClusterChange ReplaceEndpoint(size_t position);
  // So many from `first` on, all at once: a step of a rolling update.
  ClusterChange ReplaceEndpoints(size_t position, size_t first, size_t count);
  ClusterChange AddEndpoint(size_t position);
  ClusterChange RemoveEndpoint(size_t position);  // It must have one.
  ClusterChange ChangeSourceRanges(size_t position);
  // A ClusterIP Service, at the end.
  ClusterChange AddService(int endpoints);
  ClusterChange RemoveLastService();

 private:
  ClusterChange ChangedSlices(size_t position, ServicePort before, int first, int last);

  ClusterShape shape_;
  std::vector<ServicePort> ports_;
  uint32_t replaced_ = 0;  // Addresses and ranges used up.
  int next_service_;
};

// Prefixes that hold every endpoint of any cluster: for a namespace that plays all pods.
std::vector<std::string> EndpointPrefixes(Family family);

// A change for each object of the cluster.
std::vector<v1::Change> AllMessages(const Cluster& cluster);

}  // namespace svcmap::bench
