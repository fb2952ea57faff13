#include "api/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>
#include <string>

#include "absl/strings/match.h"
#include "api/grpc/refusals.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

constexpr const char* kHandshakeFailed = "Handshake failed";  // As gRPC 1.51 begins to say it.

std::atomic<uint64_t> failed_handshakes{0};

// One line a second, as anybody on the network can fail in a handshake.
void Take(gpr_log_func_args* arguments) {
  if (arguments->severity != GPR_LOG_SEVERITY_ERROR) return;
  if (absl::StartsWith(arguments->message, kHandshakeFailed)) ++failed_handshakes;
  static Refusals errors;
  errors.Add("gRPC", "gRPC error error=" + LogValue(arguments->message));
}

}  // namespace

void FollowGrpcLog() { gpr_set_log_function(Take); }

uint64_t FailedHandshakes() { return failed_handshakes; }

}  // namespace svcmap::api
