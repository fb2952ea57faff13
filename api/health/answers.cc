#include "api/health/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "nft/types/family.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;  // Keeps the order of fields (S-254).

constexpr char kContentType[] = "Content-Type";
constexpr char kZeroTime[] = "0001-01-01T00:00:00Z";

Answer JsonAnswer(bool ok, std::string body) {
  return {.code = ok ? 200 : 503,
          .headers = {{kContentType, "application/json"}, {"X-Content-Type-Options", "nosniff"}},
          .body = std::move(body)};
}

// Returns the latest update time of all families (S-255).
std::string LastUpdated(const proxy::Health& health) {
  std::optional<SystemTime> latest;
  for (const auto& family : health.family) {
    if (family && (!latest || family->last_updated > *latest)) latest = family->last_updated;
  }
  return latest ? Rfc3339(*latest) : kZeroTime;
}

Json FamilyStatus(const proxy::Health& health) {
  Json status = Json::object();
  for (const Family family : kFamilies) {
    const auto& known = health.family[Index(family)];
    if (!known) continue;
    status[std::string(FamilyName(family))] = {{"lastUpdated", Rfc3339(known->last_updated)},
                                               {"healthy", known->healthy}};
  }
  return status;
}

}  // namespace

Answer LivezAnswer(const proxy::Health& health, SystemTime now) {
  const bool ok = Live(health);
  Json body = {{"lastUpdated", ok ? Rfc3339(now) : LastUpdated(health)},
               {"currentTime", Rfc3339(now)},
               {"healthy", ok}};
  if (Json status = FamilyStatus(health); !status.empty()) body["status"] = std::move(status);
  return JsonAnswer(ok, body.dump());
}

Answer HealthzAnswer(const proxy::Health& health, SystemTime now) {
  const bool ok = Live(health) && health.node_eligible && health.ready;
  Json body = {{"lastUpdated", ok ? Rfc3339(now) : LastUpdated(health)},
               {"currentTime", Rfc3339(now)},
               {"nodeEligible", health.node_eligible},
               {"healthy", Live(health)}};
  if (Json status = FamilyStatus(health); !status.empty()) body["status"] = std::move(status);
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
      {"serviceProxyHealthy", Live(health)}};
  Answer answer = JsonAnswer(local_endpoints > 0 && Live(health), body.dump(1, '\t'));
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
