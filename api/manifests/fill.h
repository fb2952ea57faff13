// Converts a tree to a protobuf message by JSON field names. Types are as strict as in the
// Kubernetes API server. For example, the string "80" is not a number. Null means absent. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/manifests/tree.h"
#include "google/protobuf/message.h"

namespace svcmap::api {

struct FillError {
  int line = 0;
  std::string field;  // Path such as "spec.ports[0].port", or empty for the object itself.
  std::string value;  // Value in JSON syntax, truncated. Empty for maps and lists.
  std::string reason;
};

// A field that Kubernetes does not have in this place.
struct UnknownField {
  int line = 0;
  std::string field;    // Path such as "spec.externalTraficPolicy".
  std::string similar;  // The last part of the path, as it may have been meant. Can be empty.
};
// Further unknown fields of an object are ignored.
inline constexpr size_t kMaxUnknownFields = 16;

// Fills `message`, an object of Kubernetes, from `node`. Returns the first error, if any. After an
// error, `message` is only partially filled. Ignores unknown fields and adds them to `unknown`.
std::optional<FillError> FillMessage(const TreeNode& node, google::protobuf::Message& message,
                                     std::vector<UnknownField>& unknown);

// Returns a scalar in JSON syntax for display, and "" for maps and lists.
std::string ShowScalar(const TreeNode& node);

}  // namespace svcmap::api
