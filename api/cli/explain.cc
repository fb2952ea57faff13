// svcmapctl explain
#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/explain_text.h"
#include "api/cli/message_text.h"

namespace svcmap::api {

ExitCode RunExplain(const ExplainOptions& options, Session& session) {
  const absl::StatusOr<v1::ExplainResponse> answer = session.client.Explain(options.request);
  if (!answer.ok()) return session.CallFailed(answer.status());
  session.out << (options.output == OutputFormat::kJson   ? MessageJson(*answer)
                  : options.output == OutputFormat::kYaml ? MessageYaml(*answer)
                                                          : ExplainText(*answer));
  return answer->kernel().agrees() ? ExitCode::kOk : ExitCode::kKernelDiffers;
}

}  // namespace svcmap::api
