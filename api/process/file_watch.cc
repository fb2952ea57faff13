#include "api/process/file_watch.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>

#include "api/log/log_value.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Changes are reported only after this time without events, because editors and ConfigMap updates
// change several files in a row.
constexpr std::chrono::milliseconds kQuiet{50};
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
  if (!events.ok()) return ErrnoStatus(errno, "create an inotify descriptor");
  std::unique_ptr<FileWatch> watch(new FileWatch(std::move(path), std::move(events)));
  if (const absl::Status watched = watch->Watch(); !watched.ok()) return watched;
  if (watch->own_watch_ < 0) return ErrnoStatus(ENOENT, watch->path_);
  return watch;
}

FileWatch::FileWatch(std::string path, UniqueFd events)
    : path_(std::move(path)),
      events_(std::move(events)),
      readable_(thread_.base(), events_.get(), EV_READ | EV_PERSIST, [this] { ReadEvents(); }),
      quiet_(thread_.base(), [this] { changed_(Watch()); }) {}

void FileWatch::Follow(std::function<void(const absl::Status&)> changed) {
  changed_ = std::move(changed);
  readable_.Wait();
  thread_.Start();
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

// Reads all queued events. Reports a change later if any event concerns `path_`.
void FileWatch::ReadEvents() {
  alignas(inotify_event) char buffer[4096];
  bool ours = false;
  for (;;) {
    const ssize_t size = read(events_.get(), buffer, sizeof(buffer));
    if (size <= 0) break;
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
  if (ours) quiet_.After(kQuiet);
}

absl::StatusOr<std::unique_ptr<ConfigWatch>> ConfigWatch::Start(const ConfigurationFile& file) {
  absl::StatusOr<std::unique_ptr<FileWatch>> opened = FileWatch::Open(file.path);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<ConfigWatch> watch(new ConfigWatch(file, *std::move(opened)));
  watch->Poll();  // The file may have changed before the watch started.
  watch->watch_->Follow([w = watch.get()](const absl::Status& watched) {
    if (!watched.ok()) {
      spdlog::error("watch failed, changes to the configuration file may be missed error={}",
                    LogValue(watched));
    }
    w->Poll();
  });
  return watch;
}

ConfigWatch::ConfigWatch(const ConfigurationFile& file, std::unique_ptr<FileWatch> watch)
    : path_(file.path), text_(file.text), watch_(std::move(watch)) {}

void ConfigWatch::Poll() {
  const absl::StatusOr<ConfigurationFile> file = ReadConfigurationFile(path_);
  if (!file.ok()) {
    spdlog::error(
        "changed configuration file rejected, previous configuration stays in effect error={}",
        LogValue(file.status()));
  } else if (file->text == text_) {
    spdlog::debug("configuration file unchanged path={}", LogValue(path_));
  } else if (!changed_.exchange(true)) {
    kill(getpid(), SIGTERM);
  }
}

}  // namespace svcmap::api
