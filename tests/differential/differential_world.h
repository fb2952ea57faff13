// The network and servers for all scenarios, and the agent for scenarios with the same settings.
//
// All packets pass through the node, including packets between two pods of the other node.
// Without this routing, replies on connections that keep their source address would bypass the
// node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/differential/places.h"
#include "tests/support/agent.h"
#include "tests/support/echo_server.h"
#include "tests/support/topology.h"

namespace svcmap::testing {

// A source of connections.
struct Source {
  const Host* host;
  Place address;
  // Input interface on the node, or empty if the source is a process on the node.
  std::string interface;
};

class DifferentialWorld {
 public:
  static absl::StatusOr<std::unique_ptr<DifferentialWorld>> Create();

  // Replaces the agent with a new process with the given flags.
  absl::Status RestartAgent(const std::vector<std::string>& flags);

  Agent& agent() { return *agent_; }
  const Host& node() const { return topology_->node(); }
  const std::vector<Source>& sources() const { return sources_; }
  static std::vector<std::string> NodeAddresses();

 private:
  absl::Status Build();
  absl::Status Serve(const Host& host, const std::vector<Binding>& bindings);

  std::unique_ptr<Topology> topology_;
  std::vector<std::unique_ptr<EchoServer>> servers_;
  std::vector<Source> sources_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace svcmap::testing
