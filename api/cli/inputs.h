// The manifests that -f names.
#pragma once

#include <string>
#include <vector>

#include "api/cli/session.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {

struct Inputs {
  std::vector<ManifestObject> objects;  // In the order given.
  bool complete = true;  // False: something could not be read, and was said on session.err.
};

// Reads files, directories and, for "-", session.in. `left_out` is what is said of a piece that
// cannot be read: "not sent".
Inputs ReadInputs(const std::vector<std::string>& files, std::string_view left_out,
                  const Session& session);

}  // namespace svcmap::api
