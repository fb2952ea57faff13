// Content of an NLMSG_ERROR message: an acknowledgement or an error, with its extended
// acknowledgement.
#pragma once

#include <libmnl/libmnl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace svcmap::nft {

struct Answer {
  int error = 0;  // An errno, or 0 for an acknowledgement.
  // Offset of the invalid attribute in the request message.
  std::optional<uint32_t> attribute_offset;
  std::string text;  // The kernel's error message. May be empty.

  // Returns OK for an acknowledgement. `what` describes the request and is prepended to the error
  // message.
  absl::Status ToStatus(std::string what) const;
};

Answer ReadAnswer(const nlmsghdr* message);

// Returns the (positive) errno from an NLMSG_ERROR or NLMSG_DONE message: the reason for a failed
// request or an incomplete dump. Returns 0 if there was no error, and EBADMSG if the value in the
// message is not an errno.
int ErrorIn(const nlmsghdr* message);

}  // namespace svcmap::nft
