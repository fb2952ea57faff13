#include "api/process/file_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Changes are reported only after this time without events, because editors and ConfigMap updates
// change several files in a row.
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

absl::StatusOr<std::unique_ptr<FileWatch>> FileWatch::Open(std::string path) {
  UniqueFd events(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!events.ok() || !stop.ok()) return ErrnoStatus(errno, "create an inotify descriptor");
  std::unique_ptr<FileWatch> watch(
      new FileWatch(std::move(path), std::move(events), std::move(stop)));
  if (const absl::Status watched = watch->Watch(); !watched.ok()) return watched;
  if (watch->own_watch_ < 0) return ErrnoStatus(ENOENT, watch->path_);
  return watch;
}

FileWatch::FileWatch(std::string path, UniqueFd events, UniqueFd stop)
    : path_(std::move(path)), events_(std::move(events)), stop_(std::move(stop)) {}

FileWatch::~FileWatch() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) == sizeof(one) && thread_.joinable()) thread_.join();
}

void FileWatch::Follow(std::function<void(const absl::Status&)> changed) {
  changed_ = std::move(changed);
  thread_ = std::thread([this] { Run(); });
}

// Watches the target of `path_`, and the parent directory because `path_` may be replaced. inotify
// watches inodes, so Watch is called again after each change.
absl::Status FileWatch::Watch() {
  const std::string parent = ParentOf(path_);
  parent_watch_ = inotify_add_watch(events_.get(), parent.c_str(), kEvents);
  if (parent_watch_ < 0) return ErrnoStatus(errno, "watch " + parent);
  own_watch_ = inotify_add_watch(events_.get(), path_.c_str(), kEvents);
  if (own_watch_ < 0 && errno != ENOENT) return ErrnoStatus(errno, "watch " + path_);
  return absl::OkStatus();
}

// Reads all queued events. Returns true if any event concerns `path_`.
bool FileWatch::ReadEvents() {
  alignas(inotify_event) char buffer[4096];
  bool ours = false;
  for (;;) {
    const ssize_t size = read(events_.get(), buffer, sizeof(buffer));
    if (size <= 0) return ours;
    for (ssize_t offset = 0; offset < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + offset);
      offset += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      // Ignores events of the parent directory, except for the name of `path_` and names that begin
      // with "..". `path_` may be a symbolic link through a ConfigMap's "..data".
      const std::string_view name = event->len > 0 ? event->name : "";
      ours |= event->wd != parent_watch_ || event->wd == own_watch_ || name == NameOf(path_) ||
              name.starts_with("..") || (event->mask & (IN_Q_OVERFLOW | IN_IGNORED)) != 0;
    }
  }
}

void FileWatch::Run() {
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
    changed_(Watch());
  }
}

}  // namespace svcmap::api
