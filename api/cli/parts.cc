#include "api/cli/parts.h"

#include <limits>

namespace svcmap::api {

absl::Status SendInParts(const std::vector<size_t>& sizes, const SendPart& send,
                         const std::function<void(size_t bytes)>& on_split, size_t& sent) {
  size_t limit = std::numeric_limits<size_t>::max();
  sent = 0;
  while (sent < sizes.size()) {
    size_t end = sent + 1;
    size_t bytes = sizes[sent];
    while (end < sizes.size() && bytes + sizes[end] <= limit) bytes += sizes[end++];
    const absl::Status status = send(sent, end);
    if (status.ok()) {
      sent = end;
    } else if (absl::IsResourceExhausted(status) && end - sent > 1) {
      on_split(bytes);
      limit = bytes / 2;
    } else {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace svcmap::api
