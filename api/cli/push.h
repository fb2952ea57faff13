// Sends a list of objects or names in as few calls as possible and reports each response.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/object_id.h"
#include "api/cli/session.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct SentObject {
  ObjectId id;
  // Source such as "web.yaml: document 2, line 14", or empty if the command line names the object.
  std::string origin;
};

// Prints the result of a request: one line per object and the revision, and findings and errors to
// `session.err`. `done`, such as "applied", is printed for each processed object. A dry run also
// prints the elements that would change. `pruned` are objects that the request deletes without
// naming them.
ExitCode ReportAck(const v1::Ack& ack, const std::vector<SentObject>& objects,
                   std::string_view done, bool dry_run, const Session& session,
                   const std::vector<SentObject>& pruned = {});

struct Push {
  std::vector<SentObject> objects;
  std::vector<size_t> sizes;  // Encoded size of each object in bytes.
  std::string_view done;      // Printed for each processed object: "applied" or "deleted".
  bool dry_run = false;
  // True if the objects are not named in a snapshot, so the agent holds the removals if they would
  // remove too many objects.
  bool can_be_held = false;
  // Sends objects [begin, end) to the agent.
  std::function<absl::StatusOr<v1::Ack>(size_t begin, size_t end)> call;
};

// Returns a push that removes `objects`, which must outlive it.
Push MakeRemoval(const std::vector<SentObject>& objects, std::string_view done, bool dry_run,
                 Client& client);

// Returns "controller svcmap-kube (pod-7)".
std::string ControllerText(const v1::ControllerStatus& controller);

ExitCode RunPush(const Push& push, const Session& session);

}  // namespace svcmap::api
