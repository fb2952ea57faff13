// Reports changes of a file or directory. Uses inotify on the path and its parent directory to
// detect that the file was replaced. For example, an update of a mounted ConfigMap replaces the
// symbolic link "..data". Several events are reported as one change after 50 ms without a further
// event.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class FileWatch {
 public:
  // Starts to collect changes. No change is reported before Follow is called. Returns an error if
  // `path` does not exist.
  static absl::StatusOr<std::unique_ptr<FileWatch>> Open(std::string path);
  ~FileWatch();  // Waits for `changed` to return.

  // Calls `changed` after each change, on a thread of this class. The argument is an error if
  // further changes may be missed. Call Follow at most once.
  void Follow(std::function<void(const absl::Status& watched)> changed);

 private:
  FileWatch(std::string path, UniqueFd events, UniqueFd stop);
  absl::Status Watch();
  bool ReadEvents();
  void Run();

  const std::string path_;
  UniqueFd events_;
  UniqueFd stop_;
  int parent_watch_ = -1;
  int own_watch_ = -1;
  std::function<void(const absl::Status&)> changed_;
  std::thread thread_;
};

}  // namespace svcmap::api
