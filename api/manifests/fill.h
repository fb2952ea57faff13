// A tree into a protobuf message, following the message's JSON names, as strict about types as a
// Kubernetes API server: "80" in quotes is no number. Fields the message does not have are skipped;
// null means absent. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "api/manifests/tree.h"
#include "google/protobuf/message.h"

namespace svcmap::api {

struct FillError {
  int line = 0;
  std::string field;  // "spec.ports[0].port"; empty: the object itself.
  std::string value;  // As JSON would write it, shortened; empty for maps and lists.
  std::string reason;
};

// The first thing in `node` that does not fit into `message`, which is then half filled.
std::optional<FillError> FillMessage(const TreeNode& node, google::protobuf::Message& message);

// `node` to be shown: a scalar as JSON would write it; nothing for maps and lists.
std::string ShowScalar(const TreeNode& node);

}  // namespace svcmap::api
