#include "api/cli/explain_text.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/cli/destination.h"
#include "api/cli/table.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

constexpr int kEndpointsShown = 20;

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

void Endpoints(const v1::Explanation& explanation, std::string& page) {
  std::ostringstream lines;
  Table table({"SHARE", "ENDPOINT", "NODE", "CLIENT IP", "KUBE-PROXY CHAIN"}, lines);
  const int count = explanation.endpoints_size();
  uint64_t slots = 0;
  for (const v1::ExplainedEndpoint& endpoint : explanation.endpoints()) slots += Slots(endpoint);
  for (int i = 0; i < std::min(count, kEndpointsShown); ++i) {
    const v1::ExplainedEndpoint& endpoint = explanation.endpoints(i);
    table.Row({absl::StrCat(Slots(endpoint), "/", slots),
               AddressAndPort(endpoint.address(), endpoint.port()),
               endpoint.local() ? "this node" : "other node",
               endpoint.masquerade() ? "masqueraded" : "preserved", endpoint.kube_chain()});
  }
  table.Finish();
  std::istringstream rows(lines.str());
  for (std::string row; std::getline(rows, row);) absl::StrAppend(&page, "    ", row, "\n");
  if (count > kEndpointsShown) {
    absl::StrAppend(&page, "    and ", count - kEndpointsShown,
                    " more; use -o json to list all endpoints\n");
  }
}

void OneCase(const v1::Explanation& explanation, std::string& page) {
  absl::StrAppend(&page, "From ", OneLine(explanation.source()), ": ", VerdictText(explanation),
                  "\n");
  for (const v1::ExplainStep& step : explanation.steps()) {
    Line(step.what(), step.text() + (step.rules().empty() ? "" : " [" + step.rules() + "]"), page);
  }
  if (!explanation.kube_chains().empty()) {
    Line("kube-proxy", absl::StrJoin(explanation.kube_chains(), " "), page);
  }
  Endpoints(explanation, page);
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

}  // namespace

std::string ExplainText(const v1::ExplainResponse& response) {
  std::string page = absl::StrCat(
      OneLine(AddressAndPort(response.address(), response.port())), "/",
      OneLine(response.protocol()), ", ",
      response.has_service() ? OneLine(ServiceText(response.service())) : "not a Service port",
      "\n\n");
  for (const v1::Explanation& explanation : response.explanations()) {
    OneCase(explanation, page);
    page += "\n";
  }
  Kernel(response, page);
  return page;
}

}  // namespace svcmap::api
