#include "api/convert/report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/quote.h"

namespace svcmap::api {

using proxy::Finding;
using proxy::FindingCode;

FieldError Invalid(std::string value, std::string detail) {
  return {FindingCode::kInvalid, std::move(value), std::move(detail)};
}

FieldError OutOfRange(int64_t value, int64_t first, int64_t last) {
  return Invalid(absl::StrCat(value),
                 absl::StrCat("must be between ", first, " and ", last, ", inclusive"));
}

FieldError Required(std::string detail) { return {FindingCode::kRequired, "", std::move(detail)}; }

FieldError Unsupported(std::string_view value, std::initializer_list<std::string_view> supported) {
  std::string detail = "supported values: ";
  const char* separator = "";
  for (const std::string_view name : supported) {
    absl::StrAppend(&detail, separator, Quote(name));
    separator = ", ";
  }
  return {FindingCode::kUnsupported, Quote(value), std::move(detail)};
}

FieldError Duplicate(std::string value, std::string detail) {
  return {FindingCode::kDuplicate, std::move(value), std::move(detail)};
}

FieldError TooMany(int count, int limit, std::string detail) {
  return {FindingCode::kTooMany, absl::StrCat(count),
          absl::StrCat("must have at most ", limit, " items; ", detail)};
}

Finding Report::MakeFinding(Finding::Severity severity, std::string field, FieldError error) const {
  return {.severity = severity,
          .kind = kind_,
          .key = key_,
          .field = std::move(field),
          .code = error.code,
          .value = std::move(error.value),
          .reason = std::move(error.detail)};
}

void Report::Reject(std::string field, FieldError error) {
  if (rejected_) return;
  rejected_ = true;
  findings_.clear();
  findings_.push_back(
      MakeFinding(Finding::Severity::kRejected, std::move(field), std::move(error)));
}

void Report::Warn(std::string field, FieldError error) {
  if (rejected_) return;
  if (findings_.size() == kMaxWarnings) {
    ++dropped_;
    return;
  }
  findings_.push_back(MakeFinding(Finding::Severity::kWarning, std::move(field), std::move(error)));
}

std::vector<Finding> Report::Take() {
  if (!rejected_ && dropped_ > 0) {
    findings_.push_back(
        MakeFinding(Finding::Severity::kWarning, "",
                    {FindingCode::kOmitted, "", absl::StrCat(dropped_, " more warnings omitted")}));
  }
  return std::move(findings_);
}

}  // namespace svcmap::api
