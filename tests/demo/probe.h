// Opens connections to every address and port of the Services in manifests and checks the results.
//
// Expected results are derived from the manifests and from the Kubernetes definition of Services.
// Actual results are derived from the servers' answers only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/agent.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/topology.h"

namespace svcmap::demo {

// Network of the demo: a node with svcmapd, two backends and a client pod, a backend on another
// node, and a client outside the cluster. Each host is a network namespace.
class Scene {
 public:
  static absl::StatusOr<std::unique_ptr<Scene>> Set();

  testing::Agent& agent() { return *agent_; }
  const testing::Host& node() const { return topology_->node(); }
  const testing::Host& pod() const { return *pod_; }  // Returns the client pod on the node.
  const testing::Host& client() const { return *client_; }
  const std::vector<const testing::Host*>& backends() const { return backends_; }

  // Returns the name of the host with this address, for example "backend-1". Returns `address` if
  // no host has this address.
  std::string NameOf(const std::string& address) const;

 private:
  Scene() = default;
  std::unique_ptr<testing::Topology> topology_;
  std::vector<const testing::Host*> backends_;
  const testing::Host* pod_ = nullptr;
  const testing::Host* client_ = nullptr;
  std::vector<std::unique_ptr<testing::EchoServer>> servers_;
  std::unique_ptr<testing::Agent> agent_;
};

enum class Kind { kClusterIp, kNodePort, kExternalIp, kLoadBalancerIp };
const char* KindName(Kind kind);

// One way to reach a Service port, in one or both IP families.
struct Target {
  std::string service;  // Key of the Service, for example "shop/web".
  Kind kind = Kind::kClusterIp;
  testing::Protocol protocol = testing::Protocol::kTcp;
  uint16_t port = 0;
  std::string addresses[2];  // IPv4 address and IPv6 address. Each address may be empty.
  // Names of the endpoints. If there are no endpoints, connections are rejected.
  std::set<std::string> names;
};

// Returns all targets in `objects`, in the order of the objects.
std::vector<Target> TargetsOf(const std::vector<v1::Object>& objects, const Scene& scene);

// Results of the connections in one IP family.
struct Seen {
  std::map<std::string, int> answers;  // Number of answers by server.
  std::set<std::string> sources;       // Names of the source addresses that the servers saw.
  int rejected = 0;
  int unanswered = 0;
  std::string strange;  // First result that is neither an answer nor the expected rejection.
};

struct Row {
  std::string from;
  Target target;
  std::string expected;  // Expected result as text.
  Seen seen[2];          // Results for IPv4 and IPv6.
  bool ok = false;
};

// Connects from `from` to `target` and compares the results with the expectation.
Row Try(const Scene& scene, const testing::Host& from, const Target& target);

}  // namespace svcmap::demo
