// The listening sockets of nodePorts on loopback addresses, one per nodePort and IP family. Used
// only on the thread of the event loop.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "api/health/event.h"
#include "api/log/line_limit.h"
#include "nft/base/unique_fd.h"
#include "proxy/localhost/nodeports.h"

namespace svcmap::api {

class LocalhostListeners {
 public:
  using OnAccept =
      std::function<void(UniqueFd client, std::shared_ptr<proxy::EndpointPicker> picker)>;
  // Called with the IP family when a socket was opened (1) or closed (-1).
  using OnCount = std::function<void(Family family, int change)>;
  // Called when a socket cannot be opened. Repeated failures for the same reason are not reported.
  using OnFailure = std::function<void(Family family)>;

  // Opens at most `max_sockets` sockets. Retries failed sockets every `retry`.
  LocalhostListeners(event_base* base, size_t max_sockets, std::chrono::milliseconds retry,
                     OnAccept on_accept, OnCount on_count, OnFailure on_failure);

  // Opens and closes sockets. Does not affect unchanged sockets and accepted connections.
  void Update(proxy::LocalhostNodePortChanges changes);

 private:
  using Key = std::pair<Family, uint16_t>;  // IP family and nodePort.
  struct Listener {
    std::string service;
    std::shared_ptr<proxy::EndpointPicker> picker = std::make_shared<proxy::EndpointPicker>();
    UniqueFd fd = {};
    absl::Status failure = {};        // The reason if the socket could not be opened, or OK.
    std::optional<Event> ready = {};  // Destroyed before `fd`.
  };

  void CloseOthers(const std::string& service, const proxy::LocalhostNodePorts& kept);
  void Open(const Key& key);
  absl::Status TryToOpen(const Key& key, Listener& listener);
  void Accept(const Key& key);
  void Retry();
  void Resume();

  event_base* base_;
  const size_t max_sockets_;
  const std::chrono::milliseconds retry_after_;
  const OnAccept on_accept_;
  const OnCount on_count_;
  const OnFailure on_failure_;
  // Limits log lines, because controllers choose the nodePorts.
  LineLimit lines_{[](const std::string& line) { spdlog::warn("{}", line); }};
  size_t open_sockets_ = 0;
  std::map<Key, Listener> listeners_;
  absl::flat_hash_map<std::string, std::vector<Key>> keys_of_;  // By Service.
  std::set<Key> failed_;
  std::set<Key> paused_;
  Event retry_;
  Event resume_;
};

}  // namespace svcmap::api
