// The listeners of healthCheckNodePorts: one for each Service and family that has one (S-259).
// Owned by the thread of the event loop.
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
#include "proxy/health/health_check.h"

namespace svcmap::api {

class ServicePoints {
 public:
  ServicePoints(event_base* base, Connections& connections, std::function<proxy::Health()> health,
                std::chrono::milliseconds retry);

  // What did not change is left alone; what could not be opened is tried again soon (S-261).
  void Update(const proxy::HealthCheckChanges& changes);

  // Unspecified ones stand for all of their family.
  void SetAddresses(std::vector<IpAddress> addresses);

 private:
  using Key = std::pair<std::string, Family>;  // Of the Service.
  struct Point {
    uint16_t port = 0;
    uint32_t local_endpoints = 0;
    absl::Status failure;  // OK: it is open.
    std::unique_ptr<HttpPoint> http;
  };

  // Adds to `to_open` what is new.
  void Take(const Key& key, const std::optional<proxy::HealthCheck>& check, std::set<Key>& to_open);
  void Open(const std::set<Key>& keys);
  absl::Status TryToOpen(const Key& key, Point& point) const;
  void Retry();

  event_base* base_;
  Connections& connections_;
  const std::function<proxy::Health()> health_;
  const std::chrono::milliseconds retry_after_;
  std::vector<IpAddress> addresses_;
  absl::flat_hash_map<Key, Point> points_;
  std::set<Key> failed_;
  Event retry_;
  bool soon_ = false;  // The next retry does not wait its whole time.
};

}  // namespace svcmap::api
