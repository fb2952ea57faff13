// Quotes values in structured log lines such as `controller connected name=svcmap-kube
// instance=pod-7`.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace svcmap::api {

// Formats a value of a `key=value` log field. Quotes and escapes text that is empty or contains
// spaces, quotation marks, equals signs, backslashes, unprintable characters (api/log/printable.h)
// or bytes that are not valid UTF-8. This quoting ensures that each log entry is a single line in
// logfmt.
std::string LogValue(std::string_view text);

// Formats an error message as the value of a log field.
inline std::string LogValue(const absl::Status& error) {
  return LogValue(std::string_view(error.message().data(), error.message().size()));
}

}  // namespace svcmap::api
