// Keeps track of the facts about the node that rows depend on: the Node object and the interface
// addresses.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nft/types/node_addresses.h"
#include "proxy/applied/applied.h"
#include "proxy/desired/rows.h"
#include "proxy/desired/service.h"
#include "proxy/node/node_findings.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct ReconcilerOptions {
  std::string node_name;
  NodePortAddresses node_port_addresses;
  RulesetOptions ruleset;
  // Whether TCP connections to removed endpoints are reset. A Service can override this setting.
  bool reset_stale_tcp = false;
  // Families in which TCP nodePorts accept connections on the loopback address, by Index(Family).
  bool localhost_node_ports[2] = {};
  // Returns when all packets that were in the rules at the time of the call have left the rules
  // (nft::AwaitPackets). Called on several threads.
  std::function<void()> await_packets = [] {};
  // Number of elements above which nodePorts are reported. See StateLimits.
  uint64_t max_elements = UINT64_MAX;
};

class NodeFollower {
 public:
  NodeFollower(const ReconcilerOptions& options, Store& store, const Applied& applied)
      : options_(options), store_(store), applied_(applied) {}

  void SetInterfaceAddresses(NodeAddresses addresses);
  const std::vector<IpAddress>& interfaces() const { return interfaces_; }

  // Returns null if the Node is unknown.
  const Node* ThisNode() const;

  // Returns true from a change of the node until Committed() is called.
  bool Changed() const { return committed_version_ != store_.node_version(); }
  // Updates facts(), and marks all Services that depend on the difference as dirty. Such changes
  // are rare. Their cost depends on the number of these Services.
  void Follow();
  const NodeFacts& facts() const { return facts_; }
  // Returns the facts without updating facts().
  NodeFacts FactsNow() const;
  // Returns the rows that depend on the node and on no Service.
  std::vector<Row> Rows(const NodeFacts& facts) const;

  // Returns the properties of the Services that Findings() depends on.
  NodePortUse UseNow(const NodeFacts& facts) const;
  // Returns the findings about the node and its networks.
  std::vector<Finding> Findings(const NodeFacts& facts) const;

  // Call when the rows of the current facts are in the kernel.
  void Committed() { committed_version_ = store_.node_version(); }

 private:
  static constexpr uint64_t kNeverCommitted = UINT64_MAX;

  const ReconcilerOptions& options_;
  Store& store_;
  const Applied& applied_;
  NodeAddresses addresses_;
  std::vector<IpAddress> interfaces_;  // The addresses in `addresses_`.
  NodeFacts facts_;
  uint64_t committed_version_ = kNeverCommitted;  // Store::node_version().
};

// Returns a predicate that is true for Services whose rows may change with the node.
std::function<bool(const ServiceEntry&)> DependsOn(const NodeFacts& before, const NodeFacts& after);

}  // namespace svcmap::proxy
