// Tells what became of objects that were sent: one line per object on `out`, findings and failures
// on `err`, then the revision.
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
  std::string origin;  // "web.yaml: document 2, line 14"; empty: none.
};

// `done` is the word for success: "applied". Of a dry run also the elements that would change.
ExitCode ReportAck(const v1::Ack& ack, const std::vector<SentObject>& objects,
                   std::string_view done, bool dry_run, const Session& session);

}  // namespace svcmap::api
