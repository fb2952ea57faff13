// The embedded controller: reads a file or folder of manifests, sends it as a snapshot, and again
// whenever it changes. Where something could not be read, nothing is pruned: what it held keeps its
// last good state.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "api/intake/intake.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class ManifestsSource {
 public:
  // Sends the first snapshot before it returns. NOT_FOUND and the like when `path` cannot be read.
  static absl::StatusOr<std::unique_ptr<ManifestsSource>> Start(std::string path, Intake& intake);
  ~ManifestsSource();

 private:
  ManifestsSource(std::string path, Intake& intake, UniqueFd events, UniqueFd stop);
  absl::Status Watch();
  bool ReadEvents();
  absl::Status Load();
  void Run();

  const std::string path_;
  Intake& intake_;
  UniqueFd events_;
  UniqueFd stop_;
  int parent_watch_ = -1;
  int folder_watch_ = -1;
  std::thread thread_;
};

}  // namespace svcmap::api
