// HTTP responses of the health endpoints. Status, headers and body are identical to kube-proxy's
// (S-250..S-265), with one additional field in /healthz. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/health/health.h"

namespace svcmap::api {

struct Answer {
  int code = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body = {};
  // Replaces `body` if set. All responses with this body share its memory.
  std::shared_ptr<const std::string> shared_body = nullptr;
  // If true, a GET response has no body of its own, and receives the parts of HttpPoint::Publish
  // until the client closes the connection.
  bool is_stream = false;
};

using SystemTime = std::chrono::system_clock::time_point;

// Response of /livez. The status is 200 if svcmapd programs changes in time (S-250..S-257).
Answer LivezAnswer(const proxy::Health& health, SystemTime now);

// Response of /healthz. The status is 200 if /livez returns 200, load balancers may send traffic to
// this node, and svcmapd is ready. Otherwise, the body can end with the field "reason", which
// kube-proxy does not have.
Answer HealthzAnswer(const proxy::Health& health, SystemTime now);

// The response on a healthCheckNodePort. `service_key` is "namespace/name" (S-263..S-265).
Answer ServiceAnswer(const std::string& service_key, uint32_t local_endpoints,
                     const proxy::Health& health);

Answer NotFoundAnswer();

// Formats a time in UTC as RFC 3339 with up to nine decimal places: "2026-03-01T10:00:05.25Z".
std::string Rfc3339(SystemTime time);

}  // namespace svcmap::api
