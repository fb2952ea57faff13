// Implements `svcmapctl status`.
#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/message_text.h"
#include "api/cli/status_text.h"

namespace svcmap::api {

ExitCode Execute(const StatusOptions& options, Session& session) {
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return session.CallFailed(status.status());
  session.out << (options.output == OutputFormat::kJson   ? MessageJson(*status)
                  : options.output == OutputFormat::kYaml ? MessageYaml(*status)
                                                          : StatusText(*status));
  return ExitCode::kOk;
}

}  // namespace svcmap::api
