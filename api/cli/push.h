// Sends a list of objects or names in as few calls as possible and reports each response.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/ack_report.h"
#include "api/cli/session.h"

namespace svcmap::api {

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
