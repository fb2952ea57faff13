// Implements `svcmapctl accept-snapshot`.
#include "api/cli/ack_report.h"
#include "api/cli/commands.h"

namespace svcmap::api {

ExitCode Execute(const AcceptSnapshotOptions&, Session& session) {
  const absl::StatusOr<v1::Ack> ack = session.client.AcceptSnapshot();
  if (!ack.ok()) return session.CallFailed(ack.status());
  return ReportAck(*ack, {}, "", /*dry_run=*/false, session);
}

}  // namespace svcmap::api
