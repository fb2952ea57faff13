// Reports changes of a file or directory. Uses inotify on the path and its parent directory to
// detect that the file was replaced. For example, an update of a mounted ConfigMap replaces the
// symbolic link "..data". Several events are reported as one change after 50 ms without a further
// event.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"
#include "api/health/event.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class FileWatch {
 public:
  // Starts to collect changes. No change is reported before Follow is called. Returns an error if
  // `path` does not exist.
  static absl::StatusOr<std::unique_ptr<FileWatch>> Open(std::string path);
  ~FileWatch() { thread_.Stop(); }  // Waits for `changed` to return.

  // Calls `changed` after each change, on a thread of this class. The argument is an error if
  // further changes may be missed. Call Follow at most once.
  void Follow(std::function<void(const absl::Status& watched)> changed);

 private:
  FileWatch(std::string path, UniqueFd events);
  absl::Status Watch();
  void ReadEvents();

  const std::string path_;
  const UniqueFd events_;
  int parent_watch_ = -1;
  int own_watch_ = -1;
  std::function<void(const absl::Status&)> changed_;
  EventThread thread_;
  Event readable_;  // Events have arrived.
  Event quiet_;     // A timer for the time without events.
};

// Watches the --config file while svcmapd or svcmap-kube runs (S-320). Sends SIGTERM to this
// process when the content of the file differs from the content at start. The supervisor then
// restarts the process with the new configuration. If the new content is invalid, ConfigWatch only
// logs the errors.
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
