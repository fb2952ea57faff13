// What an API server says about itself: enough for kubectl to find the resources of our manifests.
#pragma once

#include <string>

namespace svcmap::testing {

// The JSON behind a path of discovery ("/api", "/apis/apps/v1", "/version" ...); empty: not such.
std::string KubeDiscovery(const std::string& path);

}  // namespace svcmap::testing
