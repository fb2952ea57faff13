#include "api/daemon/manifests_source.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "api/manifests/manifests.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Editors and ConfigMap updates change several files in a row; wait until it is quiet.
constexpr int kQuietMilliseconds = 50;
constexpr uint32_t kEvents =
    IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB;

std::string ParentOf(const std::string& path) {
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

std::string NameOf(const std::string& path) {
  const std::filesystem::path file(path);
  return (file.has_filename() ? file : file.parent_path()).filename().string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ManifestsSource>> ManifestsSource::Start(std::string path,
                                                                        Intake& intake) {
  UniqueFd events(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!events.ok() || !stop.ok()) return ErrnoStatus(errno, "make an inotify descriptor");
  std::unique_ptr<ManifestsSource> source(
      new ManifestsSource(std::move(path), intake, std::move(events), std::move(stop)));
  if (const absl::Status watched = source->Watch(); !watched.ok()) return watched;
  if (const absl::Status loaded = source->Load(); !loaded.ok()) return loaded;
  source->thread_ = std::thread([s = source.get()] { s->Run(); });
  return source;
}

ManifestsSource::ManifestsSource(std::string path, Intake& intake, UniqueFd events, UniqueFd stop)
    : path_(std::move(path)), intake_(intake), events_(std::move(events)), stop_(std::move(stop)) {}

ManifestsSource::~ManifestsSource() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
}

// The folder that holds `path_`, as another file or folder may take its place, and the folder that
// it is. A watch is of an inode: this is done again after each change.
absl::Status ManifestsSource::Watch() {
  const std::string parent = ParentOf(path_);
  parent_watch_ = inotify_add_watch(events_.get(), parent.c_str(), kEvents);
  if (parent_watch_ < 0) return ErrnoStatus(errno, "watch " + parent);
  folder_watch_ = -1;
  if (std::filesystem::is_directory(path_)) {
    folder_watch_ = inotify_add_watch(events_.get(), path_.c_str(), kEvents);
    if (folder_watch_ < 0) return ErrnoStatus(errno, "watch " + path_);
  }
  return absl::OkStatus();
}

// Reads what is queued; true if any of it is about `path_`.
bool ManifestsSource::ReadEvents() {
  alignas(inotify_event) char buffer[4096];
  bool ours = false;
  for (;;) {
    const ssize_t size = read(events_.get(), buffer, sizeof(buffer));
    if (size <= 0) return ours;
    for (ssize_t offset = 0; offset < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + offset);
      offset += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      // In the parent's folder only our own name counts; links lead elsewhere, so a change of ".."
      // names, as a ConfigMap's "..data", counts, too.
      const std::string_view name = event->len > 0 ? event->name : "";
      ours |= event->wd != parent_watch_ || event->wd == folder_watch_ || name == NameOf(path_) ||
              name.starts_with("..") || (event->mask & (IN_Q_OVERFLOW | IN_IGNORED)) != 0;
    }
  }
}

absl::Status ManifestsSource::Load() {
  const absl::StatusOr<Manifests> manifests = ReadManifestPath(path_);
  if (!manifests.ok()) return manifests.status();
  for (const ManifestError& error : manifests->errors) spdlog::error("{}", error.ToString());
  for (const ManifestError& warning : manifests->warnings) spdlog::info("{}", warning.ToString());

  const auto log = [this, count = manifests->objects.size()](const proxy::BatchResult& result) {
    if (result.error.ok()) {
      spdlog::info("{}: {} objects, revision {}", path_, count, result.revision);
    } else {
      spdlog::error("{}: {}", path_, std::string(result.error.message()));
    }
  };
  using Mark = proxy::Batch::Mark;
  const auto submit = [&](Mark mark, const std::vector<ManifestObject>& objects,
                          Intake::Done done) {
    return intake_.Submit(
        mark, static_cast<int>(objects.size()),
        [&](int i) {
          return ConvertObject(objects[static_cast<size_t>(i)].object, intake_.context());
        },
        std::move(done));
  };
  if (!manifests->errors.empty()) {
    spdlog::warn("{}: not everything could be read, so nothing is removed", path_);
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

void ManifestsSource::Run() {
  int timeout = -1;
  for (;;) {
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    const int ready = poll(waiting, 2, timeout);
    if (ready < 0) continue;
    if (waiting[1].revents != 0) return;
    if (ready > 0) {
      if (ReadEvents()) timeout = kQuietMilliseconds;
      continue;
    }
    timeout = -1;
    absl::Status status = Watch();
    if (status.ok()) status = Load();
    if (!status.ok()) {
      spdlog::error("{}; the last good state stays", std::string(status.message()));
    }
  }
}

}  // namespace svcmap::api
