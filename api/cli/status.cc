// Implements `svcmapctl status`.
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/status_text.h"
#include "api/manifests/json_text.h"

namespace svcmap::api {

ExitCode Execute(const StatusOptions& options, Session& session) {
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return session.CallFailed(status.status());
  session.out << (options.output == OutputFormat::kJson ? JsonText(MessageTree(*status))
                  : options.output == OutputFormat::kYaml
                      ? YamlText(MessageTree(*status))
                      : StatusText(*status, options.verbose, session.screen));
  return ExitCode::kOk;
}

}  // namespace svcmap::api
