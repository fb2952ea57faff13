#include "api/daemon/leader.h"

#include <spdlog/spdlog.h>

#include "api/log/log_value.h"

namespace svcmap::api {

proxy::Leader LoadLeader(const std::string& state_dir) {
  if (state_dir.empty()) return {};
  absl::StatusOr<proxy::Leader> leader = proxy::LeaderFile(state_dir, proxy::PosixFiles()).Load();
  if (leader.ok()) return *std::move(leader);
  spdlog::warn("saved epoch unreadable, controllers with any epoch can connect error={}",
               LogValue(leader.status()));
  return {};
}

void SaveLeader(const std::string& state_dir, const proxy::Leader& leader) {
  if (state_dir.empty()) return;
  const absl::Status saved = proxy::LeaderFile(state_dir, proxy::PosixFiles()).Save(leader);
  if (saved.ok()) return;
  spdlog::warn("epoch not saved, a restart of svcmapd will forget it epoch={} error={}",
               leader.epoch, LogValue(saved));
}

}  // namespace svcmap::api
