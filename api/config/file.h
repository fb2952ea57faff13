// Reads and validates a configuration file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

struct ConfigurationFile {
  std::string path;
  std::string text;  // The content of the file.
  KubeProxyConfiguration config;
  std::vector<std::string> findings;  // Findings to log.
};

// The returned status contains one line per error. Each line begins with the path of the file.
absl::StatusOr<ConfigurationFile> ReadConfigurationFile(const std::string& path);

}  // namespace svcmap::api
