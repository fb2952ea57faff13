#include "api/process/config_watch.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

#include "api/log/log_value.h"

namespace svcmap::api {

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
