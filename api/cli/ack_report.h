// Prints the result of a request. `out` receives one line per object and the revision; `err`
// receives findings and errors.
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
  // Source such as "web.yaml: document 2, line 14", or empty if the command line names the object.
  std::string origin;
};

// `done`, such as "applied", is printed for each processed object. A dry run also prints the
// elements that would change. `pruned` are objects that the request deletes without naming them.
ExitCode ReportAck(const v1::Ack& ack, const std::vector<SentObject>& objects,
                   std::string_view done, bool dry_run, const Session& session,
                   const std::vector<SentObject>& pruned = {});

}  // namespace svcmap::api
