// Implements `svcmapctl explain`.
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/explain_text.h"
#include "api/cli/message_text.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {
namespace {

void ClearRequirements(v1::ExplainResponse& response) {
  for (v1::Explanation& explanation : *response.mutable_explanations()) {
    for (v1::ExplainStep& step : *explanation.mutable_steps()) step.clear_rules();
  }
}

}  // namespace

ExitCode Execute(const ExplainOptions& options, Session& session) {
  absl::StatusOr<v1::ExplainResponse> answer = session.reader.Explain(options.request);
  if (!answer.ok()) return session.CallFailed(answer.status());
  if (!options.requirements) ClearRequirements(*answer);
  if (options.output == OutputFormat::kTable) {
    session.Print(ExplainText(*answer));
  } else {
    session.out << (options.output == OutputFormat::kJson ? JsonText(MessageTree(*answer))
                                                          : YamlText(MessageTree(*answer)));
  }
  return answer->kernel().agrees() ? ExitCode::kOk : ExitCode::kKernelDiffers;
}

}  // namespace svcmap::api
