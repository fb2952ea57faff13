// Converts a tree to a protobuf message by JSON field names. Types are as strict as in the
// Kubernetes API server. For example, the string "80" is not a number. Unknown fields are ignored,
// and null means absent. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "api/manifests/tree.h"
#include "google/protobuf/message.h"

namespace svcmap::api {

struct FillError {
  int line = 0;
  std::string field;  // Path such as "spec.ports[0].port", or empty for the object itself.
  std::string value;  // Value in JSON syntax, truncated. Empty for maps and lists.
  std::string reason;
};

// Fills `message` from `node`. Returns the first error, if any. After an error, `message` is only
// partially filled.
std::optional<FillError> FillMessage(const TreeNode& node, google::protobuf::Message& message);

// Returns a scalar in JSON syntax for display, and "" for maps and lists.
std::string ShowScalar(const TreeNode& node);

}  // namespace svcmap::api
