// The embedded controller of --manifests: reads a file or directory of manifests and submits the
// objects as a snapshot, at start and after each change. If a manifest cannot be read, or if a kind
// is misspelled, objects are updated but not pruned, so the last accepted versions of that
// manifest's objects stay in effect, and svcmapctl status contains a finding.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/intake/intake.h"
#include "api/manifests/manifests.h"
#include "api/process/file_watch.h"

namespace svcmap::api {

class ManifestsSource {
 public:
  // Submits the first snapshot before returning. Returns an error if `path` cannot be read.
  static absl::StatusOr<std::unique_ptr<ManifestsSource>> Start(std::string path, Intake& intake);

 private:
  ManifestsSource(std::string path, Intake& intake, std::unique_ptr<FileWatch> watch);
  absl::Status Load();
  absl::Status ReadAndSubmit();
  // Adds a warning for each unknown field.
  absl::StatusOr<ConvertedChange> Convert(const ManifestObject& object) const;

  const std::string path_;
  Intake& intake_;
  // Destroyed first because the watch's thread uses all other members.
  std::unique_ptr<FileWatch> watch_;
};

}  // namespace svcmap::api
