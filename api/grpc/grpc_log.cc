#include "api/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string>
#include <string_view>

#include "api/grpc/rejected_calls.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

// Escapes bytes outside ASCII. gRPC's own messages are ASCII, but they can contain bytes of a peer
// that are not valid UTF-8 or that terminals interpret as control characters.
std::string EscapeBytes(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

// At most one line per second.
void Take(gpr_log_func_args* arguments) {
  if (arguments->severity != GPR_LOG_SEVERITY_ERROR) return;
  static RejectedCalls errors;
  errors.Add("gRPC", "gRPC error error=" + LogValue(EscapeBytes(arguments->message)));
}

}  // namespace

void FollowGrpcLog() { gpr_set_log_function(Take); }

}  // namespace svcmap::api
