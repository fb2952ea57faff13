// Discovery documents of the fake API server. They are sufficient for kubectl to find the resources
// in the project's manifests.
#pragma once

#include <string>

namespace svcmap::testing {

// Returns the JSON for a discovery path ("/api", "/apis/apps/v1", "/version" ...). Empty for any
// other path.
std::string KubeDiscovery(const std::string& path);

}  // namespace svcmap::testing
