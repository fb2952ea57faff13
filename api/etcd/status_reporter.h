// Writes the status of the node to etcd (node_status.h) and watches for requests. Has its own
// connection, so that its failures do not affect the watch of the objects.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "api/etcd/node_status.h"
#include "api/etcd/status_pages.h"
#include "api/etcd/watch_call.h"
#include "api/fleet/etcd_connection.h"

namespace svcmap::etcd {

// Returns the status at `time`.
fleet::NodeStatus StatusOf(const Facts& facts, const std::string& version,
                           fleet::SystemTimePoint time);

// Runs its own thread.
class StatusReporter {
 public:
  // Calls `facts` several times a second on the thread. `agent_address` is the address of svcmapd
  // in the status, or empty. The destructor cancels the current request.
  StatusReporter(fleet::EtcdServers servers, const std::string& prefix,
                 const std::string& node_name, std::string agent_address,
                 std::function<Facts()> facts);

  // Number of failed writes of the status. Thread-safe.
  uint64_t failures() const { return failures_; }

 private:
  // All functions below are for the thread.
  void Run();
  // Each round is one connection: reads the stored status and the request, and then watches the
  // request.
  absl::Status Round(Backoff& backoff);
  // Waits until the operation ends, or until the worker must stop. Meanwhile, writes the status.
  WatchCall::Result Await(WatchCall& call, WatchCall::Result result);
  void TakeAsk(const etcdserverpb::KeyValue& pair);
  void WriteIfDue();
  absl::StatusOr<etcdserverpb::TxnResponse> Call(const etcdserverpb::TxnRequest& request);

  const std::string status_key_, ask_key_, agent_address_;
  const std::function<Facts()> facts_;
  fleet::EtcdConnection connection_;
  StatusWriter writer_{StatusWriter::Clock::now()};
  bool read_ = false;         // Whether the stored status was read.
  int64_t ask_revision_ = 0;  // Revision of the last request.
  std::atomic<uint64_t> failures_ = 0;

  std::stop_token stop_;  // Only for the thread.
  std::jthread thread_;   // Last, because the thread uses all members above.
};

}  // namespace svcmap::etcd
