// A configuration file, read and judged.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

struct ConfigurationFile {
  std::string path;
  std::string text;  // All of it.
  KubeProxyConfiguration config;
  std::vector<std::string> findings;  // To be logged.
};

// The status names the file and has a line for each error.
absl::StatusOr<ConfigurationFile> ReadConfigurationFile(const std::string& path);

}  // namespace svcmap::api
