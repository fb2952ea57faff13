#include "api/daemon/leader.h"

#include <spdlog/spdlog.h>

namespace svcmap::api {

proxy::Leader LoadLeader(const std::string& state_dir) {
  if (state_dir.empty()) return {};
  absl::StatusOr<proxy::Leader> leader = proxy::LeaderFile(state_dir, proxy::PosixFiles()).Load();
  if (leader.ok()) return *std::move(leader);
  spdlog::warn("{}: a controller with any epoch may come", std::string(leader.status().message()));
  return {};
}

void SaveLeader(const std::string& state_dir, const proxy::Leader& leader) {
  if (state_dir.empty()) return;
  const absl::Status saved = proxy::LeaderFile(state_dir, proxy::PosixFiles()).Save(leader);
  if (saved.ok()) return;
  spdlog::warn("epoch {} is not saved, and forgotten by a restart: {}", leader.epoch,
               std::string(saved.message()));
}

}  // namespace svcmap::api
