// Reads the manifests that -f specifies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/cli/options.h"
#include "api/cli/session.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {

struct Inputs {
  std::vector<ManifestObject> objects;  // Objects in input order.
  bool misspelled = false;              // True if an object is misspelled.
  bool complete = true;  // False if ReadInputs could not read an input and printed an error.
};

// Reads files and directories. For the path "-", reads session.in. `left_out` states the
// consequence for an unreadable file or document, such as "not sent". ReadInputs appends `left_out`
// to the error message.
Inputs ReadInputs(const std::vector<std::string>& files, std::string_view left_out,
                  const Session& session);

// Reads the manifests of an apply command, prints a warning for each unknown field, and keeps only
// the last version of each object. If the manifests have a flaw that --strict or --prune does not
// permit, prints an error and returns nullopt.
std::optional<Inputs> ReadObjectsToApply(const ApplyOptions& options, const Session& session);

// "web.yaml: document 2, line 14"
std::string LocationOf(const ManifestObject& object);

}  // namespace svcmap::api
