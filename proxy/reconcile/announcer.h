// Collects the changes that observers of a committed plan need. The clean-up of connection tracking
// needs the UDP endpoints, and the changes that affect TCP and SCTP connections. Other observers
// need the changes of healthCheckNodePorts, and of nodePorts on loopback addresses.
//
// Not thread-safe.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "proxy/applied/applied.h"
#include "proxy/reconcile/node_follower.h"
#include "proxy/reconcile/sync_plan.h"
#include "proxy/reconcile/sync_result.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

class Announcer {
 public:
  Announcer(const ReconcilerOptions& options, Store& store, const Applied& applied,
            const NodeFollower& node)
      : options_(options), store_(store), applied_(applied), node_(node) {}

  // Call Announce after the plan was applied. Moves the keys out of sync_plan.dirty.
  void Announce(SyncPlan& sync_plan, SyncResult& result);

 private:
  void AddHealthCheck(const std::string& key, SyncResult& result);
  void AddLocalhostNodePorts(const std::string& key, SyncResult& result);

  const ReconcilerOptions& options_;
  Store& store_;
  const Applied& applied_;
  const NodeFollower& node_;
  absl::flat_hash_set<std::string> health_checked_;  // Services with a healthCheckNodePort.
  absl::flat_hash_set<std::string> on_localhost_;  // Services with nodePorts on loopback addresses.
};

}  // namespace svcmap::proxy
