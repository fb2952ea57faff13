#include "api/convert/error_info.h"

#include "svcmap/rpc/v1/rpc.pb.h"

namespace svcmap::api {
namespace {

constexpr char kTypeUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kDomain[] = "svcmap.v1";

}  // namespace

std::string EncodeErrorDetails(int code, const std::string& message, const ErrorInfo& info) {
  rpc::v1::ErrorInfo detail;
  detail.set_reason(v1::ErrorReason_Name(info.reason));
  detail.set_domain(kDomain);
  for (const auto& [key, value] : info.metadata) (*detail.mutable_metadata())[key] = value;
  rpc::v1::Status status;
  status.set_code(code);
  status.set_message(message);
  rpc::v1::Any& any = *status.add_details();
  any.set_type_url(kTypeUrl);
  any.set_value(detail.SerializeAsString());
  return status.SerializeAsString();
}

ErrorInfo ReadErrorDetails(std::string_view details) {
  ErrorInfo info;
  rpc::v1::Status status;
  if (!status.ParseFromArray(details.data(), static_cast<int>(details.size()))) return info;
  for (const rpc::v1::Any& any : status.details()) {
    rpc::v1::ErrorInfo detail;
    if (any.type_url() != kTypeUrl || !detail.ParseFromString(any.value()) ||
        detail.domain() != kDomain || !v1::ErrorReason_Parse(detail.reason(), &info.reason)) {
      continue;
    }
    info.metadata = {detail.metadata().begin(), detail.metadata().end()};
    return info;
  }
  return info;
}

}  // namespace svcmap::api
