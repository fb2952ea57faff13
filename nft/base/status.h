// errno as absl::Status, and text as Debian's absl wants it (its string_view is a type of its own).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace svcmap {

// "open socket: Permission denied (EPERM)" with the code that fits the errno.
absl::Status ErrnoStatus(int error, std::string_view what);

// The same status with "what: " in front of its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view what);

}  // namespace svcmap
