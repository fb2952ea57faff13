// Network of the demo: a node with svcmapd, two backends and a client pod, a backend on another
// node, and a client outside the cluster. Each host is a network namespace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/echo_server.h"
#include "tests/support/topology.h"

namespace svcmap::demo {

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

}  // namespace svcmap::demo
