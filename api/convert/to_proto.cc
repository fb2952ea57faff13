// Converts state objects and findings to protobuf messages.
#include <string>

#include "api/convert/convert.h"
#include "api/convert/metadata.h"

namespace svcmap::api {

v1::Kind ToProto(proxy::Kind kind) {
  switch (kind) {
    case proxy::Kind::kService:
      return v1::KIND_SERVICE;
    case proxy::Kind::kEndpointSlice:
      return v1::KIND_ENDPOINT_SLICE;
    case proxy::Kind::kNode:
      return v1::KIND_NODE;
    case proxy::Kind::kServiceCidr:
      return v1::KIND_SERVICE_CIDR;
  }
  return v1::KIND_UNSPECIFIED;
}

std::optional<proxy::Kind> KindFromProto(v1::Kind kind) {
  switch (kind) {
    case v1::KIND_SERVICE:
      return proxy::Kind::kService;
    case v1::KIND_ENDPOINT_SLICE:
      return proxy::Kind::kEndpointSlice;
    case v1::KIND_NODE:
      return proxy::Kind::kNode;
    case v1::KIND_SERVICE_CIDR:
      return proxy::Kind::kServiceCidr;
    default:  // proto3 enumerations are open, so a message can contain any number.
      return std::nullopt;
  }
}

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
  result.set_kind(ToProto(finding.kind));
  const size_t slash = IsNamespaced(finding.kind) ? finding.key.find('/') : std::string::npos;
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

// Parsing `service.message` cannot fail because Serialize produced it.
v1::Object ToProto(const proxy::Service& service) {
  v1::Object object;
  object.mutable_service()->ParseFromString(service.message);
  return object;
}

v1::Object ToProto(const proxy::EndpointSlice& slice) {
  v1::Object object;
  object.mutable_endpoint_slice()->ParseFromString(slice.message);
  return object;
}

v1::Object ToProto(const proxy::Node& node) {
  v1::Object object;
  object.mutable_node()->ParseFromString(node.message);
  return object;
}

v1::Object ToProto(const proxy::ServiceCidr& cidr) {
  v1::Object object;
  object.mutable_service_cidr()->ParseFromString(cidr.message);
  return object;
}

}  // namespace svcmap::api
