// svcmapd without its sockets to the controller and the kernel. The input is a serialized batch,
// and the output is the response to this batch. The core does the same work as svcmapd without
// --state-dir, because another thread writes the saved state.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/intake/intake.h"
#include "proxy/reconcile/loop.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/instructions/sinks.h"

namespace svcmap::instructions {

class Core {
 public:
  // Loads the cluster in the same way as a controller's snapshot.
  explicit Core(const bench::Cluster& cluster);
  // Creates a core with an empty store and with `node_addresses`, all of which accept nodePorts.
  explicit Core(std::vector<IpAddress> node_addresses);
  ~Core() { loop_.Stop(); }

  // Sends a serialized PushRequest with a batch and waits for its response. Exits the process
  // unless the response is a commit without findings.
  void Push(const std::string& request);

  // Submits a batch and returns its result. Exits the process if the batch is not accepted.
  proxy::BatchResult Submit(proxy::Batch::Mark mark, const envelope::v1::Batch& batch);

  // Number of times the tables were rewritten completely.
  uint64_t recreations() const { return loop_.status().recreations; }

 private:
  explicit Core(proxy::NodePortAddresses node_port_addresses);
  void Commit(proxy::Batch::Mark mark, const envelope::v1::Batch& batch);

  const nft::TableSpecs tables_ = proxy::MakeTables({});
  SinkKernel kernel_{tables_};
  proxy::Reconciler reconciler_;
  proxy::Loop loop_;
  api::Intake intake_;
  std::mutex session_;
};

}  // namespace svcmap::instructions
