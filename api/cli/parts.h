// Sends many items in as few requests as possible if the receiver's size limit is unknown. svcmapd
// reports its limit only on a Push stream, and opening a Push stream ends the controller's session.
// For this reason, svcmapctl splits a request only after the agent has rejected the request.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace svcmap::api {

// Sends the items in [begin, end) in one request.
using SendPart = std::function<absl::Status(size_t begin, size_t end)>;

// Sends all items in order, starting with a single request. After RESOURCE_EXHAUSTED, calls
// `on_split(bytes)` with the size of the rejected request and halves the limit. Returns all other
// errors immediately, and RESOURCE_EXHAUSTED only if a single item is too large. `sizes` contains
// the size of each item in bytes. `sent` receives the number of items that were sent successfully.
absl::Status SendInParts(const std::vector<size_t>& sizes, const SendPart& send,
                         const std::function<void(size_t bytes)>& on_split, size_t& sent);

}  // namespace svcmap::api
