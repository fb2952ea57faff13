// Implements `svcmapctl explain`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>

#include "absl/strings/str_cat.h"
#include "api/check/target.h"
#include "api/cli/commands.h"
#include "api/cli/destination.h"
#include "api/cli/explain_text.h"
#include "api/cli/message_text.h"
#include "api/cli/text.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

// Maximum number of addresses and ports of a Service that are explained. Each is one call.
constexpr size_t kMaxServiceTargets = 20;

void ClearRequirements(v1::ExplainResponse& response) {
  for (v1::Explanation& explanation : *response.mutable_explanations()) {
    for (v1::ExplainStep& step : *explanation.mutable_steps()) step.clear_rules();
  }
}

absl::StatusOr<std::vector<v1::Object>> ListObjects(Reader& reader, v1::Kind kind,
                                                    const std::string& name_space,
                                                    const std::string& name) {
  v1::ListRequest request;
  request.set_kind(kind);
  request.set_namespace_(name_space);
  request.set_name(name);
  std::vector<v1::Object> found;
  const absl::Status listed = reader.List(request, [&](const v1::ListResponse& part) {
    found.insert(found.end(), part.objects().begin(), part.objects().end());
    return true;
  });
  if (!listed.ok()) return listed;
  return found;
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
  absl::StatusOr<std::vector<v1::Object>> services =
      ListObjects(session.reader, id.kind, id.name_space, id.name);
  if (!services.ok()) return services.status();
  if (services->empty()) return absl::NotFoundError(absl::StrCat(id.ToString(), " is not stored"));
  v1::Service& service = *services->front().mutable_service();
  if (!options.service_port.empty()) {
    KeepPort(options.service_port, service);
    if (service.spec().ports().empty()) {
      return absl::NotFoundError(
          absl::StrCat(id.ToString(), " has no port ", OneLine(options.service_port)));
    }
  }
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return status.status();
  const auto nodes = ListObjects(session.reader, v1::KIND_NODE, "", status->node_name());
  if (!nodes.ok()) return nodes.status();
  std::vector<CheckTarget> targets;
  AddTargets(service,
             nodes->empty() ? std::vector<IpAddress>() : InternalAddresses(nodes->front().node()),
             targets);
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

ExitCode Execute(const ExplainOptions& options, Session& session) {
  bool other_owner = false;
  if (options.service.name.empty()) {
    return ExplainOne(options.request, options, session, other_owner);
  }
  const absl::StatusOr<std::vector<CheckTarget>> targets = TargetsOf(options, session);
  if (absl::IsNotFound(targets.status())) {
    session.Error(std::string(targets.status().message()));
    return ExitCode::kIncomplete;
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
