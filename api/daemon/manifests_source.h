// The embedded controller: reads a file or folder of manifests, sends it as a snapshot, and again
// whenever it changes. Where something could not be read, nothing is pruned: what it held keeps its
// last good state.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/daemon/file_watch.h"
#include "api/intake/intake.h"

namespace svcmap::api {

class ManifestsSource {
 public:
  // Sends the first snapshot before it returns. NOT_FOUND and the like when `path` cannot be read.
  static absl::StatusOr<std::unique_ptr<ManifestsSource>> Start(std::string path, Intake& intake);

 private:
  ManifestsSource(std::string path, Intake& intake, std::unique_ptr<FileWatch> watch);
  absl::Status Load();

  const std::string path_;
  Intake& intake_;
  std::unique_ptr<FileWatch> watch_;  // Last: calls into us until it ends.
};

}  // namespace svcmap::api
