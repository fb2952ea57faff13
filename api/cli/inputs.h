// Reads the manifests named by -f.
#pragma once

#include <string>
#include <vector>

#include "api/cli/session.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {

struct Inputs {
  std::vector<ManifestObject> objects;  // Objects in input order.
  bool complete = true;  // False if an input could not be read. The error was printed.
};

// Reads files, directories and, for "-", session.in. `left_out` is appended to the error about an
// unreadable file or document: "not sent".
Inputs ReadInputs(const std::vector<std::string>& files, std::string_view left_out,
                  const Session& session);

}  // namespace svcmap::api
