#include "api/daemon/config_watch.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

namespace svcmap::api {

absl::StatusOr<std::unique_ptr<ConfigWatch>> ConfigWatch::Start(const ConfigurationFile& file) {
  absl::StatusOr<std::unique_ptr<FileWatch>> opened = FileWatch::Open(file.path);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<ConfigWatch> watch(new ConfigWatch(file, *std::move(opened)));
  watch->Look();  // It may have changed since it was read.
  watch->watch_->Follow([w = watch.get()](const absl::Status& watched) {
    if (!watched.ok()) {
      spdlog::error("{}; a change of that file may go unnoticed", std::string(watched.message()));
    }
    w->Look();
  });
  return watch;
}

ConfigWatch::ConfigWatch(const ConfigurationFile& file, std::unique_ptr<FileWatch> watch)
    : path_(file.path), text_(file.text), watch_(std::move(watch)) {}

void ConfigWatch::Look() {
  const absl::StatusOr<ConfigurationFile> file = ReadConfigurationFile(path_);
  if (!file.ok()) {
    spdlog::error("{}; what was read before goes on", std::string(file.status().message()));
  } else if (file->text == text_) {
    spdlog::debug("{} is what it was", path_);
  } else if (!changed_.exchange(true)) {
    kill(getpid(), SIGTERM);
  }
}

}  // namespace svcmap::api
