// Watches the file of --config while svcmapd runs (S-320).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/config/file.h"
#include "api/daemon/file_watch.h"

namespace svcmap::api {

// Sends this process SIGTERM once the file holds something else than what was read at the start, so
// that it ends and is started again with that. What cannot be used is logged, and what was read
// before goes on; the same content written again is no change.
class ConfigWatch {
 public:
  static absl::StatusOr<std::unique_ptr<ConfigWatch>> Start(const ConfigurationFile& file);

  bool changed() const { return changed_; }  // Any thread.

 private:
  ConfigWatch(const ConfigurationFile& file, std::unique_ptr<FileWatch> watch);
  void Look();

  const std::string path_;
  const std::string text_;  // Read at the start.
  std::atomic<bool> changed_ = false;
  std::unique_ptr<FileWatch> watch_;  // Last: calls into us until it ends.
};

}  // namespace svcmap::api
