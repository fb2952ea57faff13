// Implements `svcmapctl version`.
#include "api/version/version.h"

#include <ostream>

#include "api/cli/commands.h"
#include "api/cli/text.h"

namespace svcmap::api {

ExitCode Execute(const VersionOptions& /*options*/, Session& session) {
  session.out << VersionLine("svcmapctl") << '\n';
  const absl::StatusOr<v1::GetStatusResponse> status = session.reader.GetStatus();
  if (!status.ok()) return session.CallFailed(status.status());
  session.out << "svcmapd " << OneLine(status->version()) << " on node "
              << OneLine(status->node_name()) << '\n';
  return ExitCode::kOk;
}

}  // namespace svcmap::api
