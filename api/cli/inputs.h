// Reads the manifests that -f specifies.
#pragma once

#include <string>
#include <vector>

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

}  // namespace svcmap::api
