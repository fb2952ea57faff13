#include "api/screen/rejections.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/log/log_value.h"

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

void Rejections::Add(Rejection reason, const std::string& peer, const std::string& detail) {
  ++counts_[static_cast<size_t>(reason)];
  log_.Add(peer, absl::StrCat("connection rejected reason=", NameOf(reason),
                              " peer=", LogValue(peer), detail.empty() ? "" : " ", detail));
}

void Rejections::SetConnections(std::function<size_t()> connections) {
  const std::lock_guard lock(mutex_);
  connections_ = std::move(connections);
}

size_t Rejections::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_ ? connections_() : 0;
}

}  // namespace svcmap::api
