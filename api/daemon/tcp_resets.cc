#include "api/daemon/tcp_resets.h"

#include <spdlog/spdlog.h>

#include <fstream>

#include "api/log/log_value.h"

namespace svcmap::api {

proxy::TcpResets ChooseTcpResets(const std::string& path) {
  int loose = 1;
  if (!(std::ifstream(path) >> loose)) {
    spdlog::info("nf_conntrack_tcp_loose not read, assuming 1 path={}", LogValue(path));
    return proxy::TcpResets::kLoose;
  }
  return loose != 0 ? proxy::TcpResets::kLoose : proxy::TcpResets::kStrict;
}

}  // namespace svcmap::api
