// svcmapd between the sockets of controller and kernel. A serialized batch is the input, its
// response the output. The work in between and its threads are the same as in svcmapd.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/intake/intake.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/state_log.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/instructions/sinks.h"

namespace svcmap::instructions {

class Core {
 public:
  // Loads the cluster as a controller's snapshot does.
  explicit Core(const bench::Cluster& cluster);
  // Stores nothing. nodePorts are accepted on all of `node_addresses`.
  explicit Core(std::vector<IpAddress> node_addresses);
  ~Core() { loop_.Stop(); }

  // Sends a serialized PushRequest with a batch and waits for its response. Exits the process
  // unless the response is a commit without findings.
  void Push(const std::string& request);

  // Submits a batch and returns its result. The program exits if the agent does not accept it.
  proxy::BatchResult Submit(proxy::Batch::Mark mark, const v1::Batch& batch);

  // Number of times the tables were rewritten completely.
  uint64_t recreations() const { return loop_.status().recreations; }

 private:
  explicit Core(proxy::NodePortAddresses node_port_addresses);
  void Commit(proxy::Batch::Mark mark, const v1::Batch& batch);

  const nft::TableSpecs tables_ = proxy::MakeTables({});
  SinkKernel kernel_{tables_};
  SinkFiles files_;
  const std::unique_ptr<proxy::StateLog> log_;
  proxy::Reconciler reconciler_;
  proxy::Loop loop_;
  api::Intake intake_;
  std::mutex session_;
};

}  // namespace svcmap::instructions
