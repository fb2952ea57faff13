#include "api/screen/rejections.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/log/log_value.h"

namespace svcmap::api {

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
