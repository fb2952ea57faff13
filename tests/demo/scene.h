// Where the demo plays: a node with two backends and another pod on it, a remote node with a
// backend, a client outside, each a network namespace of its own; and svcmapd on the node.
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
  const testing::Host& pod() const { return *pod_; }  // On the node, not a backend.
  const testing::Host& client() const { return *client_; }
  const std::vector<const testing::Host*>& backends() const { return backends_; }

  // Who has this address: "backend-1", "node"; the address itself if nobody.
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
