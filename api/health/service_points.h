// The listeners of healthCheckNodePorts, one per Service and IP family (S-259). Used only on the
// thread of the event loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/health/connections.h"
#include "api/health/event.h"
#include "api/health/http_point.h"
#include "proxy/health/health.h"

namespace svcmap::api {

class ServicePoints {
 public:
  // Opens at most `max_sockets` sockets, so that file descriptors remain for other parts of
  // svcmapd.
  ServicePoints(event_base* base, Connections& connections, std::function<proxy::Health()> health,
                std::chrono::milliseconds retry, size_t max_sockets);

  // Opens and closes listeners without affecting unchanged listeners. Also schedules a retry for
  // failed listeners (S-261).
  void Update(const proxy::HealthCheckChanges& changes);

  // An unspecified address means all addresses of its family.
  void SetAddresses(std::vector<IpAddress> addresses);

 private:
  using Key = std::pair<std::string, Family>;  // "namespace/name" of the Service, and IP family.
  struct Point {
    uint16_t port = 0;
    uint32_t local_endpoints = 0;
    absl::Status failure;  // The reason if listeners could not be opened, or OK.
    std::unique_ptr<HttpPoint> http;
  };

  // Adds new listeners to `to_open`, and closes a listener that is no longer needed.
  void Take(const Key& key, const std::optional<proxy::HealthCheck>& check, std::set<Key>& to_open);
  void Open(const std::set<Key>& keys);
  absl::Status TryToOpen(const Key& key, Point& point);
  void CloseOthers(Point& point, const std::vector<IpAddress>& kept);
  void Retry();

  event_base* base_;
  Connections& connections_;
  const std::function<proxy::Health()> health_;
  const std::chrono::milliseconds retry_after_;
  const size_t max_sockets_;
  size_t open_sockets_ = 0;  // Number of open sockets of all listeners.
  std::vector<IpAddress> addresses_;
  absl::flat_hash_map<Key, Point> points_;
  std::set<Key> failed_;
  Event retry_;
  bool soon_ = false;  // True if a retry after kSoon is pending.
};

}  // namespace svcmap::api
