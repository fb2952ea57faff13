#include "api/grpc/explain.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

absl::Status Bad(const char* field, const std::string& value, std::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": Invalid value: ", value, ": ", std::string(reason)));
}

v1::Explanation::SourceKind ToProto(proxy::SourceKind kind) {
  switch (kind) {
    case proxy::SourceKind::kPod:
      return v1::Explanation::POD;
    case proxy::SourceKind::kNode:
      return v1::Explanation::NODE;
    case proxy::SourceKind::kOther:
      return v1::Explanation::OTHER;
  }
  return v1::Explanation::SOURCE_KIND_UNSPECIFIED;
}

v1::Explanation::Verdict ToProto(proxy::Verdict verdict) {
  switch (verdict) {
    case proxy::Verdict::kDnat:
      return v1::Explanation::DNAT;
    case proxy::Verdict::kReject:
      return v1::Explanation::REJECT;
    case proxy::Verdict::kDrop:
      return v1::Explanation::DROP;
    case proxy::Verdict::kUntouched:
      return v1::Explanation::UNTOUCHED;
  }
  return v1::Explanation::VERDICT_UNSPECIFIED;
}

v1::Explanation::EndpointSet ToProto(proxy::ChosenSet set) {
  switch (set) {
    case proxy::ChosenSet::kCluster:
      return v1::Explanation::CLUSTER;
    case proxy::ChosenSet::kLocal:
      return v1::Explanation::LOCAL;
    case proxy::ChosenSet::kNone:
      break;
  }
  return v1::Explanation::ENDPOINT_SET_UNSPECIFIED;
}

void Fill(const proxy::Explanation& from, v1::Explanation& to) {
  to.set_source_kind(ToProto(from.kind));
  to.set_source(from.source);
  for (const proxy::Step& step : from.steps) {
    v1::ExplainStep* added = to.add_steps();
    added->set_what(step.what);
    added->set_text(step.text);
    added->set_rules(step.rules);
  }
  to.set_verdict(ToProto(from.verdict));
  to.set_endpoint_set(ToProto(from.set));
  for (const proxy::ExplainedEndpoint& endpoint : from.endpoints) {
    v1::ExplainedEndpoint* added = to.add_endpoints();
    added->set_address(endpoint.address.ip.ToString());
    added->set_port(endpoint.address.port);
    added->set_local(endpoint.local);
    added->set_masquerade(endpoint.masquerade);
    added->set_kube_chain(endpoint.kube_sep);
    added->set_slots(endpoint.slots);
  }
  for (const std::string& chain : from.kube_chains) to.add_kube_chains(chain);
}

}  // namespace

absl::StatusOr<proxy::Question> ToQuestion(const v1::ExplainRequest& request) {
  proxy::Question question;
  const std::optional<IpAddress> destination = IpAddress::Parse(request.address());
  if (!destination) return Bad("address", Quote(request.address()), "must be an IP address");
  question.destination = *destination;
  if (request.port() < 1 || request.port() > 65535) {
    return Bad("port", absl::StrCat(request.port()), "must be between 1 and 65535, inclusive");
  }
  question.port = static_cast<uint16_t>(request.port());
  const std::optional<proxy::Protocol> protocol = ParseProtocol(request.protocol());
  if (!protocol) {
    return Bad("protocol", Quote(request.protocol()), "must be \"TCP\", \"UDP\" or \"SCTP\"");
  }
  question.protocol = *protocol;
  question.in_interface = request.in_interface();
  if (request.from().empty()) return question;
  if (request.from() == "node") {
    question.from = proxy::Question::From::kNode;
    return question;
  }
  const std::optional<IpAddress> source = IpAddress::Parse(request.from());
  if (!source) return Bad("from", Quote(request.from()), "must be an IP address or \"node\"");
  if (source->family() != destination->family()) {
    return Bad("from", source->ToString(),
               "must be of the same IP family as address " + destination->ToString());
  }
  question.from = proxy::Question::From::kAddress;
  question.source = *source;
  return question;
}

void FillExplained(const proxy::Question& question, const proxy::Explained& explained,
                   v1::ExplainResponse& response) {
  response.set_address(question.destination.ToString());
  response.set_port(question.port);
  response.set_protocol(std::string(proxy::ProtocolName(question.protocol)));
  if (const std::string& key = explained.service_key; !key.empty()) {
    const size_t slash = key.find('/');
    v1::ExplainedService* service = response.mutable_service();
    service->set_namespace_(key.substr(0, slash));
    service->set_name(key.substr(slash + 1));
    service->set_port_name(explained.port.name);
    service->set_port(explained.port.port);
  }
  for (const proxy::Explanation& one : explained.cases) Fill(one, *response.add_explanations());
}

std::vector<std::string> FindingsAbout(const std::string& service,
                                       const std::vector<proxy::Finding>& received,
                                       const proxy::Store& store) {
  std::vector<std::string> texts;
  if (service.empty()) return texts;
  for (const proxy::Finding& finding : received) {
    bool about = finding.kind == proxy::Kind::kService && finding.key == service;
    if (finding.kind == proxy::Kind::kEndpointSlice) {
      const auto slice = store.Stored(finding.kind, finding.key).slice;
      about = slice ? slice->service_key == service : finding.key.starts_with(service + "-");
    }
    if (about) texts.push_back(finding.ToString());
  }
  return texts;
}

void AddFindings(const std::vector<std::string>& findings, v1::ExplainResponse& response) {
  constexpr size_t kMaxSteps = 3;
  for (v1::Explanation& explanation : *response.mutable_explanations()) {
    for (size_t i = 0; i < findings.size() && i <= kMaxSteps; ++i) {
      v1::ExplainStep* step = explanation.add_steps();
      step->set_what("finding");
      step->set_text(
          i < kMaxSteps ? findings[i]
                        : absl::StrCat(findings.size() - kMaxSteps, " more, see svcmapctl status"));
    }
  }
}

void FillKernelCheck(const absl::StatusOr<std::vector<std::string>>& differences, bool pending,
                     v1::KernelCheck& check) {
  check.set_pending(pending);
  if (!differences.ok()) {
    check.set_error(std::string(differences.status().message()));
    return;
  }
  check.set_agrees(differences->empty());
  for (const std::string& difference : *differences) check.add_differences(difference);
}

}  // namespace svcmap::api
