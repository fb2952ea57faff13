// Implements `svcmapctl explain`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/check/target.h"
#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/object_id.h"
#include "api/cli/table.h"
#include "api/cli/text.h"
#include "api/manifests/json_text.h"

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
void StepLine(std::string_view name, const std::string& value, std::string& page) {
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
    StepLine(step.what(), step.text() + (step.rules().empty() ? "" : " [" + step.rules() + "]"),
             line);
    (step.what() == "source" ? result.sources : result.rest).push_back(std::move(line));
  }
  if (detail.complete && !explanation.kube_chains().empty()) {
    StepLine("kube-proxy", absl::StrJoin(explanation.kube_chains(), " "),
             result.rest.emplace_back());
  }
  if (!detail.complete && !explanation.endpoints().empty() && !ClientIp(explanation).empty()) {
    StepLine("client IP", ClientIp(explanation), result.rest.emplace_back());
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

// Prints the requirement numbers of a step in brackets if the step has any. On a terminal, omits
// steps with details, kube-proxy's chains, and endpoints that do not fit on the screen, unless
// `complete` is set.
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

// Maximum number of addresses and ports of a Service that are explained. Each is one call.
constexpr size_t kMaxServiceTargets = 20;

void ClearRequirements(v1::ExplainResponse& response) {
  for (v1::Explanation& explanation : *response.mutable_explanations()) {
    for (v1::ExplainStep& step : *explanation.mutable_steps()) step.clear_rules();
  }
}

// Keeps only the port with this name or number.
void KeepPort(const std::string& port, v1::Service& service) {
  auto& ports = *service.mutable_spec()->mutable_ports();
  ports.erase(std::remove_if(ports.begin(), ports.end(),
                             [&](const v1::ServicePort& candidate) {
                               return candidate.name() != port &&
                                      absl::StrCat(candidate.port()) != port;
                             }),
              ports.end());
}

// Returns the addresses and ports of the Service.
absl::StatusOr<std::vector<CheckTarget>> TargetsOf(const ExplainOptions& options,
                                                   const Session& session) {
  const ObjectId& id = options.service;
  std::optional<v1::Service> stored;
  absl::Status listed =
      session.reader.ForEach(id, [&](const v1::Object& object) { stored = object.service(); });
  if (!listed.ok()) return listed;
  if (!stored) return absl::NotFoundError(absl::StrCat(id.ToString(), " is not stored"));
  v1::Service& service = *stored;
  if (!options.service_port.empty()) {
    KeepPort(options.service_port, service);
    if (service.spec().ports().empty()) {
      return absl::NotFoundError(
          absl::StrCat(id.ToString(), " has no port ", OneLine(options.service_port)));
    }
  }
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return status.status();
  std::vector<IpAddress> node_addresses;
  listed = session.reader.ForEach(
      {v1::KIND_NODE, "", status->node_name()},
      [&](const v1::Object& object) { node_addresses = InternalAddresses(object.node()); });
  if (!listed.ok()) return listed;
  std::vector<CheckTarget> targets;
  AddTargets(service, node_addresses, targets);
  const std::optional<IpAddress> from = IpAddress::Parse(options.request.from());
  std::erase_if(targets, [&](const CheckTarget& target) {
    return from && from->family() != target.address.family();
  });
  if (targets.empty()) {
    return absl::NotFoundError(absl::StrCat(id.ToString(), " has no address that svcmap programs"));
  }
  return targets;
}

// Returns true, and prints the owner, if another Service than `asked` owns the explained address.
bool HasOtherOwner(const v1::ExplainResponse& answer, const ObjectId& asked,
                   const Session& session) {
  const ObjectId owner{v1::KIND_SERVICE, answer.service().namespace_(), answer.service().name()};
  if (asked.name.empty() || !answer.has_service() || owner == asked) return false;
  session.Warn(absl::StrCat(AddressAndPort(answer.address(), answer.port()), "/", answer.protocol(),
                            " belongs to ", owner.ToString(), ", not to ", asked.ToString()));
  return true;
}

// Prints the agent's findings about the Service. The explanations contain only the findings about
// the owners of the addresses.
void WarnAbout(const ObjectId& service, const Session& session) {
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return;
  for (const v1::ObjectResult& finding : status->findings()) {
    if (IdOf(finding) == service) session.Warn(finding.message());
  }
}

// Sets `other_owner` if another Service than options.service owns the address.
ExitCode ExplainOne(const v1::ExplainRequest& request, const ExplainOptions& options,
                    const Session& session, bool& other_owner) {
  absl::StatusOr<v1::ExplainResponse> answer = session.reader.Explain(request);
  if (!answer.ok()) return session.CallFailed(answer.status());
  if (!options.requirements) ClearRequirements(*answer);
  if (HasOtherOwner(*answer, options.service, session)) other_owner = true;
  if (options.output == OutputFormat::kTable) {
    const bool complete = options.verbose || options.requirements;
    session.out << ExplainText(*answer, complete, session.screen);
  } else {
    session.out << (options.output == OutputFormat::kJson ? JsonText(MessageTree(*answer))
                                                          : YamlText(MessageTree(*answer)));
  }
  return answer->kernel().agrees() ? ExitCode::kOk : ExitCode::kKernelDiffers;
}

}  // namespace

ExitCode RunExplain(const Options& all, Session& session) {
  const ExplainOptions& options = all.explain;
  bool other_owner = false;
  if (options.service.name.empty()) {
    return ExplainOne(options.request, options, session, other_owner);
  }
  const absl::StatusOr<std::vector<CheckTarget>> targets = TargetsOf(options, session);
  if (absl::IsNotFound(targets.status())) {
    return session.Refuse(std::string(targets.status().message()));
  }
  if (!targets.ok()) return session.CallFailed(targets.status());
  ExitCode code = ExitCode::kOk;
  const char* separator = "";
  const size_t explained = std::min(targets->size(), kMaxServiceTargets);
  for (const CheckTarget& target : std::span(*targets).first(explained)) {
    v1::ExplainRequest request = ExplainRequestFor(target);
    request.set_from(options.request.from());
    request.set_in_interface(options.request.in_interface());
    session.out << separator;
    separator = options.output == OutputFormat::kYaml ? "---\n" : "\n";
    const ExitCode one = ExplainOne(request, options, session, other_owner);
    code = Worse(code, one);
    if (one == ExitCode::kUnreachable || one == ExitCode::kCallRejected) return code;
  }
  if (other_owner) WarnAbout(options.service, session);
  if (explained < targets->size()) {
    session.Note(absl::StrCat("showing ", explained, " of ", targets->size(),
                              " addresses and ports of ", options.service.ToString(),
                              "; use NAMESPACE/NAME:PORT or ADDRESS:PORT for the others"));
  }
  return code;
}

}  // namespace svcmap::api
