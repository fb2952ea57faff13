#include "api/convert/report.h"

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"

namespace svcmap::api {

using proxy::Finding;

void Report::Refuse(std::string field, std::string value, std::string reason) {
  if (refused_) return;
  refused_ = true;
  findings_.clear();
  findings_.push_back({Finding::Severity::kRefused, kind_, key_, std::move(field), std::move(value),
                       std::move(reason)});
}

void Report::Warn(std::string field, std::string value, std::string reason) {
  if (refused_) return;
  if (findings_.size() == kMaxWarnings) {
    ++dropped_;
    return;
  }
  findings_.push_back({Finding::Severity::kWarning, kind_, key_, std::move(field), std::move(value),
                       std::move(reason)});
}

std::vector<Finding> Report::Take() {
  if (!refused_ && dropped_ > 0) {
    findings_.push_back({Finding::Severity::kWarning, kind_, key_, "", "",
                         absl::StrCat("has ", dropped_, " more warnings like these")});
  }
  return std::move(findings_);
}

}  // namespace svcmap::api
