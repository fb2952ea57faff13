#include "api/cli/explain_text.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/cli/destination.h"
#include "api/cli/table.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

// The amount of text about a connection.
struct ExplainDetail {
  bool complete = true;  // False if steps with details and kube-proxy's chains are omitted.
  int endpoints = 20;    // Maximum number of endpoints.
};

std::string ServiceText(const v1::ExplainedService& service) {
  return absl::StrCat(service.namespace_(), "/", service.name(),
                      service.port_name().empty() ? "" : ":" + service.port_name());
}

std::string VerdictText(const v1::Explanation& explanation) {
  switch (explanation.verdict()) {
    case v1::Explanation::DNAT:
      return absl::StrCat(
          "DNAT to ", explanation.endpoints_size() == 1 ? "" : "one of ",
          CountText(static_cast<uint64_t>(explanation.endpoints_size()), "endpoint"),
          explanation.endpoint_set() == v1::Explanation::LOCAL ? " on this node"
                                                               : " in the cluster");
    case v1::Explanation::REJECT:
      return "REJECT";
    case v1::Explanation::DROP:
      return "DROP";
    case v1::Explanation::UNTOUCHED:
      return "not modified";
    default:
      return absl::StrCat("verdict ", static_cast<int>(explanation.verdict()));
  }
}

// Appends a line "  name        value" to `page`.
void Line(std::string_view name, const std::string& value, std::string& page) {
  absl::StrAppendFormat(&page, "  %-11s %s\n", OneLine(name), OneLine(value));
}

// Agents without support for weights do not set `slots`.
uint32_t Slots(const v1::ExplainedEndpoint& endpoint) { return std::max(endpoint.slots(), 1u); }

// Returns "preserved" or "masqueraded" if it applies to all endpoints, or else "".
std::string ClientIp(const v1::Explanation& explanation) {
  const auto& endpoints = explanation.endpoints();
  const auto masquerade = [](const auto& endpoint) { return endpoint.masquerade(); };
  if (std::ranges::all_of(endpoints, masquerade)) return "masqueraded";
  return std::ranges::none_of(endpoints, masquerade) ? "preserved" : "";
}

void Endpoints(const v1::Explanation& explanation, const ExplainDetail& detail, std::string& page) {
  std::ostringstream lines;
  std::vector<std::string> header = {"SHARE", "ENDPOINT", "NODE", "CLIENT IP", "KUBE-PROXY CHAIN"};
  if (!detail.complete) header.resize(ClientIp(explanation).empty() ? 4 : 3);
  Table table(header, lines);
  const int count = explanation.endpoints_size();
  uint64_t slots = 0;
  for (const v1::ExplainedEndpoint& endpoint : explanation.endpoints()) slots += Slots(endpoint);
  for (int i = 0; i < std::min(count, detail.endpoints); ++i) {
    const v1::ExplainedEndpoint& endpoint = explanation.endpoints(i);
    std::vector<std::string> cells = {absl::StrCat(Slots(endpoint), "/", slots),
                                      AddressAndPort(endpoint.address(), endpoint.port()),
                                      endpoint.local() ? "this node" : "other node",
                                      endpoint.masquerade() ? "masqueraded" : "preserved",
                                      endpoint.kube_chain()};
    cells.resize(header.size());
    table.Row(std::move(cells));
  }
  table.Finish();
  std::istringstream rows(lines.str());
  for (std::string row; std::getline(rows, row);) absl::StrAppend(&page, "    ", row, "\n");
  if (count > detail.endpoints) {
    absl::StrAppend(&page, "    and ", count - detail.endpoints,
                    " more; use -o json to list all endpoints\n");
  }
}

// The parts of the text about one kind of source. Each part consists of complete lines.
struct Case {
  std::vector<std::string> names;    // Kinds of sources with the same `rest`.
  std::vector<std::string> sources;  // Steps that describe the sources.
  std::vector<std::string> rest;     // Other steps, and the table of endpoints.
};

// Returns whether a step only gives the reason for the kind of source or for the client IP, or
// describes later packets.
bool IsDetail(std::string_view step) {
  return step == "source" || step == "masquerade" || step == "hairpin" || step == "resets";
}

Case CaseOf(const v1::Explanation& explanation, const ExplainDetail& detail) {
  Case result{.names = {OneLine(explanation.source())}, .sources = {}, .rest = {}};
  for (const v1::ExplainStep& step : explanation.steps()) {
    if (!detail.complete && IsDetail(step.what())) continue;
    std::string line;
    Line(step.what(), step.text() + (step.rules().empty() ? "" : " [" + step.rules() + "]"), line);
    (step.what() == "source" ? result.sources : result.rest).push_back(std::move(line));
  }
  if (detail.complete && !explanation.kube_chains().empty()) {
    Line("kube-proxy", absl::StrJoin(explanation.kube_chains(), " "), result.rest.emplace_back());
  }
  if (!detail.complete && !explanation.endpoints().empty() && !ClientIp(explanation).empty()) {
    Line("client IP", ClientIp(explanation), result.rest.emplace_back());
  }
  std::string table;
  Endpoints(explanation, detail, table);
  if (!table.empty()) result.rest.push_back(std::move(table));
  return result;
}

// Combines cases that differ only in their sources.
std::vector<Case> MergeEqual(std::vector<Case> cases) {
  std::vector<Case> merged;
  for (Case& one : cases) {
    const auto same = std::ranges::find(merged, one.rest, &Case::rest);
    if (same == merged.end()) {
      merged.push_back(std::move(one));
      continue;
    }
    same->names.insert(same->names.end(), one.names.begin(), one.names.end());
    for (std::string& source : one.sources) {
      if (std::ranges::find(same->sources, source) == same->sources.end()) {
        same->sources.push_back(std::move(source));
      }
    }
  }
  return merged;
}

// Removes the parts that all cases contain, and returns these parts.
std::vector<std::string> TakeCommon(std::vector<Case>& cases) {
  std::vector<std::string> common;
  for (const std::string& part : cases.front().rest) {
    const auto contains = [&](const Case& one) {
      return std::ranges::find(one.rest, part) != one.rest.end();
    };
    if (std::ranges::all_of(cases, contains)) common.push_back(part);
  }
  for (Case& one : cases) {
    std::erase_if(one.rest, [&](const std::string& part) {
      return std::ranges::find(common, part) != common.end();
    });
  }
  return common;
}

// Prints the verdicts, then the steps that all sources have in common, then the other steps.
void Cases(const v1::ExplainResponse& response, const ExplainDetail& detail, std::string& page) {
  std::vector<Case> cases;
  for (const v1::Explanation& explanation : response.explanations()) {
    absl::StrAppend(&page, "From ", OneLine(explanation.source()), ": ", VerdictText(explanation),
                    "\n");
    cases.push_back(CaseOf(explanation, detail));
  }
  cases = MergeEqual(std::move(cases));
  if (cases.size() > 1) {
    const std::vector<std::string> common = TakeCommon(cases);
    if (!common.empty()) absl::StrAppend(&page, "All sources\n", absl::StrJoin(common, ""));
  }
  for (const Case& one : cases) {
    if (one.sources.empty() && one.rest.empty()) continue;
    if (cases.size() > 1) absl::StrAppend(&page, "Only ", absl::StrJoin(one.names, "; "), "\n");
    absl::StrAppend(&page, absl::StrJoin(one.sources, ""), absl::StrJoin(one.rest, ""));
  }
  if (!cases.empty()) page += "\n";
}

void Kernel(const v1::ExplainResponse& response, std::string& page) {
  const v1::KernelCheck& kernel = response.kernel();
  const std::string pending = kernel.pending() ? "; uncommitted changes are pending" : "";
  if (!kernel.error().empty()) {
    absl::StrAppend(&page, "Kernel: cannot read the map elements: ", OneLine(kernel.error()),
                    pending, "\n");
    return;
  }
  absl::StrAppend(&page, "Kernel: ",
                  kernel.agrees() ? "matches the desired state" : "differs from the desired state",
                  ", revision ", response.revision(), pending, "\n");
  for (const std::string& difference : kernel.differences()) {
    absl::StrAppend(&page, "  ", OneLine(difference), "\n");
  }
}

std::string DetailedPage(const v1::ExplainResponse& response, const ExplainDetail& detail,
                         size_t columns) {
  std::string page = absl::StrCat(
      OneLine(AddressAndPort(response.address(), response.port())), "/",
      OneLine(response.protocol()), ", ",
      response.has_service() ? OneLine(ServiceText(response.service())) : "not a Service port",
      "\n\n");
  Cases(response, detail, page);
  Kernel(response, page);
  return FitLines(page, columns);
}

}  // namespace

std::string ExplainText(const v1::ExplainResponse& response, bool complete,
                        const TerminalSize& screen) {
  ExplainDetail detail{.complete = complete || screen.rows == 0};
  std::string page = DetailedPage(response, detail, screen.columns);
  // The screen also contains the next prompt.
  while (!detail.complete && detail.endpoints > 1 &&
         std::ranges::count(page, '\n') >= static_cast<ptrdiff_t>(screen.rows)) {
    --detail.endpoints;
    page = DetailedPage(response, detail, screen.columns);
  }
  return page;
}

}  // namespace svcmap::api
