#include "api/daemon/leader.h"

#include <spdlog/spdlog.h>

#include "api/log/log_value.h"
#include "proxy/saved/bounded_files.h"

namespace svcmap::api {
namespace {

// Returns file operations with time limits, because a controller waits until its epoch is saved and
// a hung disk must not block the controller.
proxy::Files& LeaderFiles() {
  using std::chrono::seconds;
  static proxy::Files& files =
      *proxy::MakeBoundedFiles(proxy::PosixFiles(),
                               {.write = seconds(1), .sync = seconds(2), .other = seconds(1)})
           .release();
  return files;
}

}  // namespace

proxy::Leader LoadLeader(const std::string& state_dir) {
  if (state_dir.empty()) return {};
  absl::StatusOr<proxy::Leader> leader = proxy::LeaderFile(state_dir, LeaderFiles()).Load();
  if (leader.ok()) return *std::move(leader);
  spdlog::warn("saved epoch unreadable, controllers with any epoch can connect error={}",
               LogValue(leader.status()));
  return {};
}

void SaveLeader(const std::string& state_dir, const proxy::Leader& leader) {
  if (state_dir.empty()) return;
  const absl::Status saved = proxy::LeaderFile(state_dir, LeaderFiles()).Save(leader);
  if (saved.ok()) return;
  spdlog::warn("epoch not saved, the epoch will be lost when svcmapd restarts epoch={} error={}",
               leader.epoch, LogValue(saved));
}

}  // namespace svcmap::api
