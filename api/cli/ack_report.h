// Prints the result of a request: one line per object and the revision on `out`, findings and
// errors on `err`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/cli/exit_code.h"
#include "api/cli/object_id.h"
#include "api/cli/session.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct SentObject {
  ObjectId id;
  std::string origin;  // "web.yaml: document 2, line 14". Empty if named on the command line.
};

// `done` is printed for each processed object ("applied"). A dry run also prints the elements that
// would change.
ExitCode ReportAck(const v1::Ack& ack, const std::vector<SentObject>& objects,
                   std::string_view done, bool dry_run, const Session& session);

}  // namespace svcmap::api
