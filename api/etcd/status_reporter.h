// Writes the status of the node to etcd (node_status.h) and watches for requests. Has its own
// connection, so that its failures do not affect the watch of the objects.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/etcd/status_pages.h"
#include "api/fleet/etcd_connection.h"

namespace svcmap::etcd {

// Returns the status at `time`.
fleet::NodeStatus StatusOf(const Facts& facts, const std::string& version,
                           fleet::SystemTimePoint time);

// Runs its own thread.
class StatusReporter {
 public:
  // Calls `facts` several times a second on the thread. `agent_address` is the address of svcmapd
  // in the status, or empty.
  static std::unique_ptr<StatusReporter> Start(fleet::EtcdServers servers, std::string prefix,
                                               std::string node_name, std::string agent_address,
                                               std::function<Facts()> facts);
  ~StatusReporter();  // Cancels the current request and joins the thread.

  uint64_t failures() const;  // Number of failed writes of the status. Thread-safe.

 private:
  class Worker;
  explicit StatusReporter(std::unique_ptr<Worker> worker);
  const std::unique_ptr<Worker> worker_;
};

}  // namespace svcmap::etcd
