#include "api/health/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "nft/types/family.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;  // Keeps the order of fields (S-254).

constexpr char kContentType[] = "Content-Type";

Answer JsonAnswer(bool ok, std::string body) {
  return {.code = ok ? 200 : 503,
          .headers = {{kContentType, "application/json"}, {"X-Content-Type-Options", "nosniff"}},
          .body = std::move(body)};
}

// Returns the fields that all bodies have. `ok`: the status is 200.
Json Fields(bool ok, const proxy::Health& health, SystemTime now) {
  return {{"lastUpdated", Rfc3339(ok ? now : health.last_synced)}, {"currentTime", Rfc3339(now)}};
}

Json FamilyStatus(const proxy::Health& health) {
  Json status;
  for (const Family family : kFamilies) {
    status[std::string(FamilyName(family))] = {{"lastUpdated", Rfc3339(health.last_synced)},
                                               {"healthy", health.live}};
  }
  return status;
}

}  // namespace

Answer LivezAnswer(const proxy::Health& health, SystemTime now) {
  Json body = Fields(health.live, health, now);
  body["healthy"] = health.live;
  body["status"] = FamilyStatus(health);
  return JsonAnswer(health.live, body.dump());
}

Answer HealthzAnswer(const proxy::Health& health, SystemTime now) {
  const bool ok = health.live && health.node_eligible && health.ready;
  Json body = Fields(ok, health, now);
  body["nodeEligible"] = health.node_eligible;
  body["healthy"] = health.live;
  body["status"] = FamilyStatus(health);
  if (!health.reason.empty()) body["reason"] = health.reason;
  return JsonAnswer(ok, body.dump());
}

Answer ServiceAnswer(const std::string& service_key, uint32_t local_endpoints,
                     const proxy::Health& health) {
  const size_t slash = service_key.find('/');
  const Json body = {
      {"service",
       {{"namespace", service_key.substr(0, slash)}, {"name", service_key.substr(slash + 1)}}},
      {"localEndpoints", local_endpoints},
      {"serviceProxyHealthy", health.live}};
  Answer answer = JsonAnswer(local_endpoints > 0 && health.live, body.dump(1, '\t'));
  answer.headers.emplace_back("X-Load-Balancing-Endpoint-Weight", std::to_string(local_endpoints));
  return answer;
}

Answer NotFoundAnswer() {
  return {.code = 404,
          .headers = {{kContentType, "text/plain; charset=utf-8"}},
          .body = "404 page not found\n"};
}

std::string Rfc3339(SystemTime time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E*SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

}  // namespace svcmap::api
