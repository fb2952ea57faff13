// Quotes values in structured log lines such as `controller connected name=svcmap-kube
// instance=pod-7`.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace svcmap::api {

// Formats a value of a `key=value` log field. Quotes and escapes text that is empty or contains
// spaces, quotation marks, equals signs, backslashes or control characters. This quoting ensures
// that each log entry is a single line in logfmt.
inline std::string LogValue(std::string_view text) {
  std::string quoted = "\"";
  bool plain = !text.empty();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      quoted += escaped;
    } else {
      quoted += c;
      plain = plain && c != ' ' && c != '=';
      continue;
    }
    plain = false;
  }
  return plain ? std::string(text) : quoted + '"';
}

// Formats an error message as the value of a log field.
inline std::string LogValue(const absl::Status& error) {
  return LogValue(std::string_view(error.message().data(), error.message().size()));
}

}  // namespace svcmap::api
