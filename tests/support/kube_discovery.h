// Discovery documents of the fake API server. With these documents, kubectl finds the resources in
// the project's manifests.
#pragma once

#include <string>

namespace svcmap::testing {

// Returns the JSON for a discovery path ("/api", "/apis/apps/v1", "/version" ...). Returns an empty
// string for any other path.
std::string KubeDiscovery(const std::string& path);

}  // namespace svcmap::testing
