// Sends a list of objects or names, in as few calls as the agent takes, and reports each answer.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/ack_report.h"
#include "api/cli/session.h"

namespace svcmap::api {

struct Push {
  std::vector<SentObject> objects;
  std::vector<size_t> sizes;  // Bytes each of them takes in a request.
  std::string_view done;      // "applied"
  bool dry_run = false;
  // Calls the agent with the objects [begin, end).
  std::function<absl::StatusOr<v1::Ack>(size_t begin, size_t end)> call;
};

ExitCode RunPush(const Push& push, const Session& session);

}  // namespace svcmap::api
