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

// Reads files and directories. For the path "-", reads session.in. `left_out`, such as "not sent",
// is appended to the error about an unreadable file or document.
Inputs ReadInputs(const std::vector<std::string>& files, std::string_view left_out,
                  const Session& session);

}  // namespace svcmap::api
