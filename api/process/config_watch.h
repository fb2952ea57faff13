// Watches the --config file while svcmapd or svcmap-kube runs (S-320).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"
#include "api/process/file_watch.h"

namespace svcmap::api {

// Sends SIGTERM to this process when the content of the file differs from the content at start. The
// supervisor then restarts the process with the new configuration. If the new content is invalid,
// ConfigWatch only logs the errors.
class ConfigWatch {
 public:
  static absl::StatusOr<std::unique_ptr<ConfigWatch>> Start(const ConfigurationFile& file);

  bool changed() const { return changed_; }  // Thread-safe.

 private:
  ConfigWatch(const ConfigurationFile& file, std::unique_ptr<FileWatch> watch);
  void Poll();

  const std::string path_;
  const std::string text_;  // Content of the file at start.
  std::atomic<bool> changed_ = false;
  // Destroyed first because the watch's thread uses all other members.
  std::unique_ptr<FileWatch> watch_;
};

}  // namespace svcmap::api
