// Forwards TCP connections to nodePorts on 127.0.0.1 and ::1 to endpoints (S-113), because the
// kernel does not route packets from loopback addresses to other hosts.
//
// Runs a libevent event loop in one thread. All methods are thread-safe and do not block. The
// number of connections and file descriptors is limited (api/localhost/limits.h). The destructor
// closes all connections.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <random>

#include "api/health/event_thread.h"
#include "api/localhost/connection.h"
#include "api/localhost/limits.h"
#include "api/localhost/listeners.h"
#include "api/localhost/status.h"
#include "proxy/localhost/nodeports.h"

namespace svcmap::api {

struct LocalhostForwarderOptions {
  size_t max_listeners = SIZE_MAX;
  size_t max_connections = kMaxForwardedConnections;
  std::chrono::milliseconds retry{5000};  // Time between attempts to open a socket.
  std::chrono::milliseconds connect_timeout = kConnectTimeout;
};

class LocalhostForwarder {
 public:
  explicit LocalhostForwarder(LocalhostForwarderOptions options);
  ~LocalhostForwarder() { thread_.Stop(); }

  void Update(proxy::LocalhostNodePortChanges changes);
  LocalhostForwarderStatus status() const;

 private:
  using ConnectionList = std::list<std::unique_ptr<ForwardedConnection>>;

  void OnWake();
  void OnAccept(UniqueFd client, std::shared_ptr<proxy::EndpointPicker> picker);
  bool HasRoom();
  void OnEnd(ConnectionList::iterator connection);

  const LocalhostForwarderOptions options_;
  std::mutex mutex_;
  proxy::LocalhostNodePortChanges changes_;  // Not processed yet. Guarded by mutex_.
  std::atomic<uint64_t> listener_count_[2] = {};
  std::atomic<uint64_t> listener_failures_[2] = {};
  std::atomic<uint64_t> connection_count_ = 0;
  std::atomic<uint64_t> rejected_connections_ = 0;

  EventThread thread_;
  // Used only on the forwarder's thread.
  std::mt19937_64 random_{std::random_device()()};
  LocalhostListeners listeners_;
  ConnectionList connections_;
  ConnectionList ended_;  // Freed in the next iteration of the event loop.
  // Time from which a rejected connection is logged again.
  std::chrono::steady_clock::time_point log_again_;
  Event release_;  // Frees `ended_`.
};

}  // namespace svcmap::api
