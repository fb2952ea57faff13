#include "api/screen/rejected_calls.h"

#include <spdlog/spdlog.h>

namespace svcmap::api {
namespace {

constexpr std::chrono::seconds kOneLinePer{1};
constexpr size_t kMaxLoggedClients = 64;  // Maximum number of log lines per second.

}  // namespace

bool RejectedCalls::Add(const std::string& client, const std::string& what, Clock::time_point now) {
  ++count_;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(logged_, [&](const auto& entry) { return now - entry.second >= kOneLinePer; });
    if (logged_.size() >= kMaxLoggedClients || !logged_.emplace(client, now).second) return false;
  }
  spdlog::warn("{}", what);
  return true;
}

}  // namespace svcmap::api
