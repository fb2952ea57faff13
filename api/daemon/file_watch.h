// Tells when a file or folder may have changed: by inotify on it and on the folder that holds it,
// so that another one in its place is seen, as is a ConfigMap's, which is reached by a link
// "..data" that moves. What comes within 50 ms is told once.
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
  // Changes count from here on; they are told once Follow was called.
  static absl::StatusOr<std::unique_ptr<FileWatch>> Open(std::string path);
  ~FileWatch();  // Waits for `changed` to return.

  // Calls `changed` on a thread of its own; with an error if further changes may not be seen. At
  // most once.
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
