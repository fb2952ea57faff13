// Version of the protocol, and details of the error of a call: google.rpc.ErrorInfo in
// google.rpc.Status (see svcmap.v1.ErrorReason). Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct ErrorInfo {
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  std::map<std::string, std::string> metadata;
};

// Returns the encoded google.rpc.Status for grpc::Status::error_details().
std::string EncodeErrorDetails(int code, const std::string& message, const ErrorInfo& info);

// Returns ERROR_REASON_UNSPECIFIED if `details` contains no known reason of svcmap.v1.
ErrorInfo ReadErrorDetails(std::string_view details);

// Version of the protocol in svcmap/v1/control.proto.
inline constexpr uint32_t kProtocolVersion = 2;

}  // namespace svcmap::api
