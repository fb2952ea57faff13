#include "api/daemon/tcp_resets.h"

#include <spdlog/spdlog.h>

#include <fstream>

#include "api/log/log_value.h"
#include "api/preflight/preflight.h"

namespace svcmap::api {

proxy::TcpResets ChooseTcpResets(const std::string& path) {
  int loose = 1;
  if (!(std::ifstream(path) >> loose)) {
    spdlog::warn("nf_conntrack_tcp_loose not read, assuming 1 path={}", LogValue(path));
    return proxy::TcpResets::kLoose;
  }
  return loose != 0 ? proxy::TcpResets::kLoose : proxy::TcpResets::kStrict;
}

void DropStrictResetsIfRejected(proxy::RulesetOptions& ruleset) {
  if (ruleset.tcp_resets != proxy::TcpResets::kStrict) return;
  const absl::Status probed = ProbeTables(proxy::MakeTables(ruleset));
  if (probed.ok()) return;
  ruleset.tcp_resets = proxy::TcpResets::kLoose;
  spdlog::warn(
      "--reset-stale-tcp has no effect while nf_conntrack_tcp_loose is 0, the kernel rejects the "
      "rules error={}",
      LogValue(probed));
}

}  // namespace svcmap::api
