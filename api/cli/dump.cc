// Implements `svcmapctl dump`.
#include <ostream>

#include "api/cli/commands.h"

namespace svcmap::api {

ExitCode RunDump(const DumpOptions& options, Session& session) {
  v1::DumpRequest request;
  request.set_what(options.what);
  const absl::Status status = session.reader.Dump(request, [&](const v1::DumpResponse& part) {
    session.out << part.text();
    return session.out.good();  // Stops when standard output is closed.
  });
  return status.ok() ? ExitCode::kOk : session.CallFailed(status);
}

}  // namespace svcmap::api
