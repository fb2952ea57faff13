// The text of a kubeconfig file. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/kube/http/api_server.h"

namespace svcmap::kube {

// As ReadKubeconfig, for a file in `folder`. Errors name the field, and never show a value that
// could be a secret.
absl::StatusOr<ApiServer> ParseKubeconfig(std::string_view text, const std::string& folder);

}  // namespace svcmap::kube
