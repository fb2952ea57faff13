// Parses kubeconfig files. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/kube/http/api_server.h"

namespace svcmap::kube {

// Like ReadKubeconfig, for the content of a file in `folder`. Errors name the field, but never
// contain a value that may be a secret.
absl::StatusOr<ApiServer> ParseKubeconfig(std::string_view text, const std::string& folder);

}  // namespace svcmap::kube
