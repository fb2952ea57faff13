#include "api/check/cause.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxListed = 3;

std::string Join(std::vector<std::string> items, const char* separator) {
  const size_t more = items.size() > kMaxListed ? items.size() - kMaxListed : 0;
  if (more > 0) items.resize(kMaxListed);
  return absl::StrCat(absl::StrJoin(items, separator),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

bool IsReachable(Observation observation) {
  return observation == Observation::kConnected || observation == Observation::kAnswered;
}

// Returns the rules that match as specified and can have the observed effect.
std::vector<std::string> RulesThat(RuleMatch match, const Evidence& evidence,
                                   const std::vector<ForeignRule>& rules) {
  ConnectionParts parts{evidence.sources, {evidence.target.port}, evidence.target.protocol};
  parts.addresses.push_back(evidence.target.address);
  for (const auto& [endpoint, result] : evidence.endpoints) {
    if (IsReachable(result.observation)) continue;
    parts.addresses.push_back(endpoint.address);
    parts.ports.push_back(endpoint.port);
  }
  const Observation observed = evidence.result.observation;
  const bool error = observed == Observation::kRefused || observed == Observation::kUnreachable;
  std::vector<std::string> lines;
  for (const ForeignRule& rule : rules) {
    // A dropped packet is never answered with an error, and a rejected packet always is.
    if (observed != Observation::kBlocked && rule.rejects != error) continue;
    if (MatchRule(rule, parts) != match) continue;
    lines.push_back(absl::StrCat("\"", rule.text, "\" in chain ", rule.chain));
  }
  return lines;
}

std::string Problem(const CheckTarget& endpoint, Observation observation) {
  const std::string name = endpoint.ToString();
  switch (observation) {
    case Observation::kRefused:
      return absl::StrCat("endpoint ", name,
                          " refuses connections: no process listens on the port");
    case Observation::kUnreachable:
      return absl::StrCat("endpoint ", name, " is unreachable");
    default:
      return absl::StrCat("endpoint ", name,
                          " does not answer: the pod or the pod network is down");
  }
}

// Describes the endpoints that cannot be reached directly.
std::vector<std::string> DeadEndpoints(const Evidence& evidence) {
  if (evidence.is_endpoint) return {Problem(evidence.target, evidence.result.observation)};
  std::vector<std::string> problems;
  for (const auto& [endpoint, result] : evidence.endpoints) {
    const bool failed =
        result.observation == Observation::kRefused ||
        result.observation == Observation::kUnreachable ||
        (endpoint.protocol != proxy::Protocol::kUdp && result.observation == Observation::kSilent);
    if (failed) problems.push_back(Problem(endpoint, result.observation));
  }
  return problems;
}

}  // namespace

bool Matches(v1::Explanation::Verdict verdict, proxy::Protocol protocol, Observation observation) {
  switch (verdict) {
    case v1::Explanation::DNAT:
      return IsReachable(observation) ||
             (protocol == proxy::Protocol::kUdp && observation == Observation::kSilent);
    case v1::Explanation::REJECT:
      // send() fails with EPERM if the output hook rejects the packet.
      return observation == Observation::kRefused || observation == Observation::kBlocked;
    case v1::Explanation::DROP:
      return observation == Observation::kSilent || observation == Observation::kBlocked;
    default:
      return true;
  }
}

Cause LikelyCause(const Evidence& evidence, const std::vector<ForeignRule>& rules) {
  const v1::KernelCheck& kernel = evidence.kernel;
  if (!kernel.differences().empty()) {
    const std::string differences =
        Join({kernel.differences().begin(), kernel.differences().end()}, "; ");
    if (kernel.pending()) {
      return {"pending-change", "the agent has not committed all changes: " + differences};
    }
    return {"kernel-state", "the kernel differs from the desired state: " + differences};
  }
  if (evidence.sources.empty() && !evidence.is_endpoint &&
      evidence.result.observation == Observation::kUnreachable) {
    return {"no-route",
            absl::StrCat("no route to ", evidence.target.address.ToString(),
                         ": the kernel looks up the route before svcmap's rules change the "
                         "destination; remedy: add a default route, or a route that contains the "
                         "address")};
  }
  if (evidence.rp_filter_drops > 0) {
    return {"rp-filter",
            absl::StrCat("the reverse path filter dropped the packet (strict on ",
                         Join(evidence.strict_interfaces, ", "),
                         "): the route to the source does not use the interface on which the "
                         "packet arrives")};
  }
  if (const auto matching = RulesThat(RuleMatch::kExplicit, evidence, rules); !matching.empty()) {
    return {"foreign-rule", "a rule of other software matches: " + Join(matching, "; ")};
  }
  const std::vector<std::string> possible = RulesThat(RuleMatch::kPossible, evidence, rules);
  const std::string candidates =
      possible.empty() ? "" : "; rules that may match: " + Join(possible, "; ");
  if (const std::vector<std::string> dead = DeadEndpoints(evidence); !dead.empty()) {
    return {"dead-endpoint", Join(dead, "; ") + candidates};
  }
  if (evidence.result.observation == Observation::kBlocked) {
    return {"foreign-rule", "a rule on this host blocks the packet" + candidates};
  }
  return {"unknown",
          absl::StrCat(
              "the elements in the kernel match the desired state",
              evidence.endpoints.empty() ? "" : ", and direct connections to the endpoints succeed",
              candidates)};
}

}  // namespace svcmap::api
