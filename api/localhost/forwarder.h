// Forwards TCP connections to nodePorts on 127.0.0.1 and ::1 to endpoints (S-113), because the
// kernel does not route packets from loopback addresses to other hosts.
//
// Runs a libevent event loop in one thread. All methods are thread-safe and do not block. The
// number of connections and file descriptors is limited (api/localhost/connection.h). The
// destructor closes all connections.
#pragma once

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "api/health/event.h"
#include "api/localhost/connection.h"
#include "api/log/line_limit.h"
#include "nft/base/unique_fd.h"
#include "proxy/localhost/nodeports.h"

namespace svcmap::api {

// The listening sockets of nodePorts on loopback addresses, one per nodePort and IP family. Used
// only on the thread of the event loop.
class LocalhostListeners {
 public:
  using OnAccept =
      std::function<void(UniqueFd client, std::shared_ptr<proxy::EndpointPicker> picker)>;

  // Opens at most `max_sockets` sockets. Retries failed sockets every `retry`.
  LocalhostListeners(event_base* base, size_t max_sockets, std::chrono::milliseconds retry,
                     OnAccept on_accept);

  // Opens and closes sockets. Does not affect unchanged sockets and accepted connections.
  void Update(proxy::LocalhostNodePortChanges changes);

  // Number of open sockets. Thread-safe.
  uint64_t sockets(Family family) const { return sockets_[Index(family)]; }
  // Number of failures to open a socket. Repeated failures for the same reason count once.
  // Thread-safe.
  uint64_t failures(Family family) const { return failures_[Index(family)]; }

 private:
  using Key = std::pair<Family, uint16_t>;  // IP family and nodePort.
  struct Listener {
    std::string service;
    std::shared_ptr<proxy::EndpointPicker> picker = std::make_shared<proxy::EndpointPicker>();
    absl::Status failure;                  // The reason if the socket could not be opened, or OK.
    std::optional<AcceptEvent> accepting;  // Absent if the socket could not be opened.
  };

  void CloseOthers(const std::string& service, const proxy::LocalhostNodePorts& kept);
  void Open(const Key& key);
  absl::Status TryToOpen(const Key& key, Listener& listener);
  void Retry();

  event_base* base_;
  const size_t max_sockets_;
  const std::chrono::milliseconds retry_after_;
  const OnAccept on_accept_;
  std::atomic<uint64_t> sockets_[2] = {};
  std::atomic<uint64_t> failures_[2] = {};
  // Limits log lines, because controllers choose the nodePorts.
  LineLimit lines_{[](const std::string& line) { spdlog::warn("{}", line); }};
  std::map<Key, Listener> listeners_;
  absl::flat_hash_map<std::string, std::vector<Key>> keys_of_;  // By Service.
  std::set<Key> failed_;
  Event retry_;
};

// Values of the forwarder for the metrics. Arrays are indexed by Index(Family).
struct LocalhostForwarderStatus {
  uint64_t listeners[2] = {};
  uint64_t listener_failures[2] = {};
  uint64_t connections = 0;
  uint64_t rejected_connections = 0;  // Connections reset because too many were open.
};

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
