// svcmapd between the socket of its controllers and that of the kernel: a serialized batch goes in,
// its answer comes out, and what happens in between is what the agent does, on the same threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "api/intake/intake.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/state_log.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/instructions/sinks.h"

namespace svcmap::instructions {

class Core {
 public:
  // Holds the cluster, as after a controller's snapshot.
  explicit Core(const bench::Cluster& cluster);
  ~Core() { loop_.Stop(); }

  // A serialized PushRequest with a batch. Returns with its answer; the program ends if that is not
  // a commit without findings.
  void Push(const std::string& request);

  // How often the tables were written whole.
  uint64_t recreations() const { return loop_.status().recreations; }

 private:
  void Submit(proxy::Batch::Mark mark, const v1::Batch& batch);

  const nft::TableSpecs tables_ = proxy::MakeTables({});
  SinkKernel kernel_{tables_};
  SinkFiles files_;
  const std::unique_ptr<proxy::StateLog> log_;
  proxy::Reconciler reconciler_;
  proxy::Loop loop_;
  api::Intake intake_;
  std::mutex speaker_;
};

}  // namespace svcmap::instructions
