#include "api/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string>
#include <string_view>

#include "api/log/log_value.h"
#include "api/screen/rejected_calls.h"

namespace svcmap::api {
namespace {

// At most one line per second.
void Take(gpr_log_func_args* arguments) {
  if (arguments->severity != GPR_LOG_SEVERITY_ERROR) return;
  static RejectedCalls errors;
  errors.Add("gRPC", "gRPC error error=" + LogValue(std::string_view(arguments->message)));
}

}  // namespace

void FollowGrpcLog() { gpr_set_log_function(Take); }

}  // namespace svcmap::api
