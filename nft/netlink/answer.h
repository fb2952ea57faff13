// What an NLMSG_ERROR message says: an acknowledgement or an error, and the extended
// acknowledgement that goes with it.
#pragma once

#include <libmnl/libmnl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace svcmap::nft {

struct Answer {
  int error = 0;                             // An errno; 0: acknowledged.
  std::optional<uint32_t> attribute_offset;  // Into the message that is answered.
  std::string text;                          // The kernel's words; may be empty.

  // OK if acknowledged; `what` was asked for.
  absl::Status ToStatus(std::string what) const;
};

Answer ReadAnswer(const nlmsghdr* message);

// The errno, positive, that NLMSG_ERROR and NLMSG_DONE both begin with: why it failed, or why the
// dump ended early. 0 if there is none; EBADMSG if it is no errno.
int ErrorIn(const nlmsghdr* message);

}  // namespace svcmap::nft
