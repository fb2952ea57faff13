// Converts state objects and findings to protobuf messages.
#include <string>

#include "api/convert/convert.h"
#include "api/convert/kinds.h"

namespace svcmap::api {

v1::ResultCode ToProto(proxy::FindingCode code) {
  switch (code) {
    case proxy::FindingCode::kInvalid:
      return v1::INVALID;
    case proxy::FindingCode::kRequired:
      return v1::REQUIRED;
    case proxy::FindingCode::kUnsupported:
      return v1::UNSUPPORTED;
    case proxy::FindingCode::kDuplicate:
      return v1::DUPLICATE;
    case proxy::FindingCode::kTooMany:
      return v1::TOO_MANY;
    case proxy::FindingCode::kForbidden:
      return v1::FORBIDDEN;
    case proxy::FindingCode::kLimit:
      return v1::LIMIT;
    case proxy::FindingCode::kUnreadable:
      return v1::UNREADABLE;
    case proxy::FindingCode::kNotStored:
      return v1::NOT_STORED;
    case proxy::FindingCode::kKernelRejected:
      return v1::KERNEL_REJECTED;
    case proxy::FindingCode::kOmitted:
      return v1::OMITTED;
  }
  return v1::RESULT_CODE_UNSPECIFIED;
}

v1::ObjectResult ToProto(const proxy::Finding& finding) {
  v1::ObjectResult result;
  result.set_kind(InfoOf(finding.kind).proto);
  const size_t slash = InfoOf(finding.kind).namespaced ? finding.key.find('/') : std::string::npos;
  if (slash != std::string::npos) result.set_namespace_(finding.key.substr(0, slash));
  result.set_name(slash == std::string::npos ? finding.key : finding.key.substr(slash + 1));
  result.set_severity(finding.rejected() ? v1::REFUSED : v1::WARNING);
  result.set_field(finding.field);
  result.set_value(finding.value);
  result.set_code(ToProto(finding.code));
  const std::string_view category = CategoryOf(finding.code);
  const bool both = !category.empty() && !finding.reason.empty();
  result.set_reason(std::string(category) + (both ? ": " : "") + finding.reason);
  result.set_message(finding.ToString());
  return result;
}

v1::Object ToObject(proxy::Kind kind, const std::string& message) {
  v1::Object object;
  // Cannot fail, because Serialize produced the message.
  MutableMessage(InfoOf(kind), object).ParseFromString(message);
  return object;
}

}  // namespace svcmap::api
