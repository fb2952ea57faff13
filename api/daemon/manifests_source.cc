#include "api/daemon/manifests_source.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "api/log/log_value.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxReported = 20;  // Maximum number of errors that become findings.

// Returns the findings about errors in `manifests`.
std::vector<std::string> ReportedErrors(const Manifests& manifests) {
  std::vector<std::string> reported;
  for (const ManifestError& error : manifests.errors) {
    if (reported.size() == kMaxReported) {
      reported.push_back(absl::StrCat("--manifests: ", manifests.errors.size() - kMaxReported,
                                      " more errors are in the log"));
      break;
    }
    reported.push_back("--manifests: " + error.ToString());
  }
  return reported;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ManifestsSource>> ManifestsSource::Start(std::string path,
                                                                        Intake& intake) {
  absl::StatusOr<std::unique_ptr<FileWatch>> watch = FileWatch::Open(path);
  if (!watch.ok()) return watch.status();
  std::unique_ptr<ManifestsSource> source(
      new ManifestsSource(std::move(path), intake, *std::move(watch)));
  if (const absl::Status loaded = source->Load(); !loaded.ok()) return loaded;
  source->watch_->Follow([s = source.get()](absl::Status status) {
    if (status.ok()) status = s->Load();
    if (!status.ok()) {
      spdlog::error("manifests not read, last accepted state stays in effect error={}",
                    LogValue(status));
      s->intake_.SetSourceErrors({absl::StrCat("--manifests: ", status.message(),
                                               "; the last accepted state stays in effect")});
    }
  });
  return source;
}

ManifestsSource::ManifestsSource(std::string path, Intake& intake, std::unique_ptr<FileWatch> watch)
    : path_(std::move(path)), intake_(intake), watch_(std::move(watch)) {}

absl::Status ManifestsSource::Load() {
  const absl::Status status = ReadAndSubmit();
  // Reading large files leaves free memory that malloc does not return to the system by itself.
  constexpr size_t kMuch = size_t{32} << 20;
  if (mallinfo2().fordblks > kMuch) malloc_trim(0);
  return status;
}

absl::StatusOr<ConvertedChange> ManifestsSource::Convert(const ManifestObject& object) const {
  absl::StatusOr<ConvertedChange> converted = ConvertObject(object.object, intake_.context());
  if (!converted.ok()) return converted;
  for (const ManifestError& unknown : object.unknown_fields) {
    converted->findings.push_back({.severity = proxy::Finding::Severity::kWarning,
                                   .kind = converted->kind,
                                   .key = converted->key,
                                   .field = unknown.field,
                                   .code = proxy::FindingCode::kForbidden,
                                   .reason = unknown.reason});
  }
  return converted;
}

absl::Status ManifestsSource::ReadAndSubmit() {
  const absl::StatusOr<Manifests> manifests = ReadManifestPath(path_);
  if (!manifests.ok()) return manifests.status();
  for (const ManifestError& error : manifests->errors) {
    spdlog::error("manifest rejected error={}", LogValue(error.ToString()));
  }
  intake_.SetSourceErrors(ReportedErrors(*manifests));
  for (const ManifestError& warning : manifests->warnings) {
    spdlog::info("manifest accepted with a warning warning={}", LogValue(warning.ToString()));
  }

  // The loop may answer after this object is gone.
  const auto log = [path = path_,
                    count = manifests->objects.size()](const proxy::BatchResult& result) {
    if (!result.held.empty()) return;  // Already logged.
    if (result.error.ok()) {
      spdlog::info("manifests applied path={} count={} revision={}", LogValue(path), count,
                   result.revision);
    } else {
      spdlog::error("manifests not applied path={} error={}", LogValue(path),
                    LogValue(result.error));
    }
  };
  using Mark = proxy::Batch::Mark;
  const auto submit = [&](Mark mark, const std::vector<ManifestObject>& objects,
                          Intake::Done done) {
    return intake_.Submit({mark}, static_cast<int>(objects.size()),
                          [&](int i) { return Convert(objects[static_cast<size_t>(i)]); },
                          std::move(done), {.client = "", .fields = "path=" + LogValue(path_)});
  };
  if (!manifests->errors.empty()) {
    spdlog::warn(
        "objects that are missing from the manifests are kept, because a manifest was "
        "rejected path={}",
        LogValue(path_));
    return submit(Mark::kNone, manifests->objects, log);
  }
  for (const auto& [mark, objects, done] :
       {std::tuple(Mark::kSnapshotBegin, false, Intake::Done()),
        std::tuple(Mark::kNone, true, Intake::Done()),
        std::tuple(Mark::kSnapshotEnd, false, Intake::Done(log))}) {
    const absl::Status status =
        submit(mark, objects ? manifests->objects : std::vector<ManifestObject>(), done);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace svcmap::api
