#include "api/check/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

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
