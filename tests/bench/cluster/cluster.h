// A generated cluster of any size, and changes to this cluster. Equal parameters produce equal
// clusters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/types/family.h"
#include "tests/bench/cluster/service_port.h"

namespace svcmap::bench {

enum class Mix {
  kClusterIp,  // All Services are ClusterIP Services without other features.
  // Of every ten Services, one has a nodePort, one has a nodePort and a load balancer IP, and one
  // has session affinity.
  kMixed,
  // All Services have an external IP, a load balancer IP, a nodePort, policy Local and session
  // affinity. Every tenth Service has source ranges.
  kEverything,
};

struct ClusterShape {
  int services = 1000;
  int endpoints = 10;  // Number of endpoints per Service.
  Family family = Family::kIpv4;
  Mix mix = Mix::kClusterIp;
  proxy::Protocol protocol = proxy::Protocol::kTcp;
};

// Parses a shape such as "10000x10".
absl::StatusOr<ClusterShape> ParseShape(const std::string& text);
// Returns the shape as text, for example "10000x10-mixed-ipv6". Mix and family are omitted if they
// have their default values.
std::string ShapeText(const ClusterShape& shape);

// One change to a Service port. `before` and `after` are the port before and after the change, or
// absent if the port does not exist.
struct ClusterChange {
  std::optional<ServicePort> before, after;
  std::vector<v1::Change> messages;  // The change as messages that a controller would send.
};

class Cluster {
 public:
  // `first` is the number of the first Service. Names and addresses are derived from the numbers of
  // the Services.
  explicit Cluster(const ClusterShape& shape, int first = 0);

  const ClusterShape& shape() const { return shape_; }
  // Returns the current Service ports, in the order in which list-based proxies store them.
  const std::vector<ServicePort>& ports() const { return ports_; }
  size_t endpoint_count() const;

  // Replaces an endpoint. `position` is an index in ports(). Adds an address that was never used
  // before, and removes the first or the last address.
  ClusterChange ReplaceEndpoint(size_t position);
  // Replaces `count` endpoints, starting at `first`, in one change, like one step of a rolling
  // update.
  ClusterChange ReplaceEndpoints(size_t position, size_t first, size_t count);
  ClusterChange AddEndpoint(size_t position);
  // Removes an endpoint. The Service must have at least one endpoint.
  ClusterChange RemoveEndpoint(size_t position);
  ClusterChange ChangeSourceRanges(size_t position);
  // Appends a ClusterIP Service.
  ClusterChange AddService(int endpoints);
  ClusterChange RemoveLastService();

 private:
  ClusterChange ChangedSlices(size_t position, ServicePort before, int first, int last);

  ClusterShape shape_;
  std::vector<ServicePort> ports_;
  uint32_t replaced_ = 0;  // Number of addresses and ranges used so far.
  int next_service_;
};

// Returns prefixes that contain every endpoint of any cluster, for a namespace that simulates all
// pods.
std::vector<std::string> EndpointPrefixes(Family family);

// Returns one change per object of the cluster.
std::vector<v1::Change> AllMessages(const Cluster& cluster);

}  // namespace svcmap::bench
