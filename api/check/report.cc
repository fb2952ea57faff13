#include "api/check/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "api/manifests/json_text.h"

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

using Json = nlohmann::ordered_json;

std::string Count(size_t count, const char* noun, const char* plural) {
  return absl::StrCat(count, " ", count == 1 ? noun : plural);
}

std::string Heading(const CheckTarget& target) {
  return absl::StrCat(target.service, " ", target.role, " ", target.ToString());
}

template <typename T>
std::span<const T> First(const std::vector<T>& entries, size_t shown) {
  return std::span(entries).first(std::min(shown, entries.size()));
}

// Appends a line with the number of entries after the first `shown`, if there are any.
void AppendMore(size_t count, size_t shown, std::string_view before, std::string_view noun,
                std::string& text) {
  if (count <= shown) return;
  absl::StrAppendFormat(&text, "%sand %d more; use -o json to list all %s\n", before, count - shown,
                        noun);
}

void AppendList(std::string_view heading, const std::vector<std::string>& entries, size_t shown,
                std::string_view noun, std::string& text) {
  if (entries.empty()) return;
  absl::StrAppendFormat(&text, "\n%s:\n", heading);
  for (const std::string& entry : First(entries, shown)) absl::StrAppend(&text, "  ", entry, "\n");
  AppendMore(entries.size(), shown, "  ", noun, text);
}

Json TargetJson(const CheckTarget& target) {
  return {{"service", target.service},
          {"role", target.role},
          {"address", target.address.ToString()},
          {"port", target.port},
          {"protocol", std::string(proxy::ProtocolName(target.protocol))}};
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

std::string ExpectedText(const v1::Explanation& explanation) {
  switch (explanation.verdict()) {
    case v1::Explanation::DNAT:
      return explanation.endpoints_size() == 1
                 ? "connection to 1 endpoint"
                 : absl::StrCat("connection to one of ", explanation.endpoints_size(),
                                " endpoints");
    case v1::Explanation::REJECT:
      return "rejection";
    case v1::Explanation::DROP:
      return "no answer";
    default:
      return "not modified by svcmap";
  }
}

std::string ObservedText(const ProbeResult& result, std::chrono::milliseconds timeout) {
  switch (result.observation) {
    case Observation::kConnected:
      return "connected";
    case Observation::kAnswered:
      return "answered";
    case Observation::kSilent:
      return absl::StrCat("no answer within ", absl::FormatDuration(absl::FromChrono(timeout)));
    case Observation::kRefused:
      return "refused";
    case Observation::kUnreachable:
      return absl::StrCat("unreachable: ", result.detail);
    case Observation::kBlocked:
      return absl::StrCat("blocked on this host: ", result.detail);
    case Observation::kNotChecked:
      break;
  }
  return absl::StrCat("not checked: ", result.detail);
}

std::string ReportText(const CheckReport& report, size_t shown, size_t listed) {
  std::string text = absl::StrCat(
      "Connected from ", report.from, " to ",
      Count(report.addresses, "Service address", "Service addresses"), " and ",
      Count(report.endpoints, "endpoint", "endpoints"), ": ",
      Count(report.differences.size(), "difference", "differences"),
      report.not_checked.empty() ? ""
                                 : absl::StrCat(", ", report.not_checked.size(), " not checked"),
      "\n");
  for (const auto& difference : First(report.differences, shown)) {
    absl::StrAppend(&text, "\n", Heading(difference.target), "\n");
    absl::StrAppendFormat(&text, "  %-9s %s\n", "expected", difference.expected);
    absl::StrAppendFormat(&text, "  %-9s %s\n", "observed", difference.observed);
    absl::StrAppendFormat(&text, "  %-9s %s: %s\n", "cause", difference.cause.kind,
                          difference.cause.text);
  }
  AppendMore(report.differences.size(), shown, "\n", "differences", text);
  AppendList("Findings of the agent, see svcmapctl status", report.findings, listed, "findings",
             text);
  AppendList("Without EndpointSlices", {report.without_slices.begin(), report.without_slices.end()},
             listed, "Services", text);
  std::map<std::string, std::vector<std::string>> omissions;
  for (const CheckReport::Omission& omission : report.not_checked) {
    omissions[omission.reason].push_back(Heading(omission.target));
  }
  if (!omissions.empty()) text += "\nNot checked\n";
  for (const auto& [reason, headings] : omissions) {
    absl::StrAppend(&text, "  ", reason, "\n");
    for (const std::string& heading : First(headings, listed)) {
      absl::StrAppend(&text, "    ", heading, "\n");
    }
    AppendMore(headings.size(), listed, "    ", "addresses", text);
  }
  return text;
}

std::string ReportJson(const CheckReport& report) {
  Json json = {{"from", report.from},
               {"addresses", report.addresses},
               {"endpoints", report.endpoints},
               {"differences", Json::array()},
               {"notChecked", Json::array()},
               {"findings", report.findings},
               {"withoutSlices", report.without_slices},
               {"notes", report.notes}};
  for (const CheckReport::Difference& difference : report.differences) {
    Json entry = TargetJson(difference.target);
    entry["expected"] = difference.expected;
    entry["observed"] = difference.observed;
    entry["cause"] = {{"kind", difference.cause.kind}, {"text", difference.cause.text}};
    json["differences"].push_back(entry);
  }
  for (const CheckReport::Omission& omission : report.not_checked) {
    Json entry = TargetJson(omission.target);
    entry["reason"] = omission.reason;
    json["notChecked"].push_back(entry);
  }
  return JsonText(json);
}

}  // namespace svcmap::api
