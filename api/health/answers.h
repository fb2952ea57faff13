// What is answered over HTTP about health: status, headers and body, byte for byte as kube-proxy's
// (docs/specification.md, section 6). Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proxy/health/health.h"

namespace svcmap::api {

struct Answer {
  int code = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

using SystemTime = std::chrono::system_clock::time_point;

// /livez: do we program what we are told? (S-250..S-257)
Answer LivezAnswer(const proxy::Health& health, SystemTime now);

// /healthz: the same, and may load balancers send traffic to this node? Says no as well while we
// are not ready, with a last field "reason" that kube-proxy does not have.
Answer HealthzAnswer(const proxy::Health& health, SystemTime now);

// Of one Service, "namespace/name", at its healthCheckNodePort (S-263..S-265).
Answer ServiceAnswer(const std::string& service_key, uint32_t local_endpoints,
                     const proxy::Health& health);

Answer NotFoundAnswer();

// "2026-03-01T10:00:05.25Z": RFC 3339 in UTC, with as many digits as it takes, at most nine.
std::string Rfc3339(SystemTime time);

}  // namespace svcmap::api
