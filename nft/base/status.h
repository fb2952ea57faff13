// Converts errno values to absl::Status. The functions take std::string_view, because
// absl::string_view is a different type in Debian's absl package.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace svcmap {

// Returns a status such as "open socket: Permission denied (EPERM)", with the canonical code for
// `error`.
absl::Status ErrnoStatus(int error, std::string_view what);

// Returns `status` with "what: " prepended to its message. Returns OK unchanged.
absl::Status Annotate(const absl::Status& status, std::string_view what);

}  // namespace svcmap
