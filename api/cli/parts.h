// Many items in as few requests as possible, when the receiver has a limit we only learn by being
// refused. (The limit is told on the controllers' stream alone, and opening one would end theirs.)
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace svcmap::api {

// Sends the items [begin, end).
using SendPart = std::function<absl::Status(size_t begin, size_t end)>;

// Sends everything in order: in one part if the receiver takes it, otherwise (RESOURCE_EXHAUSTED)
// in parts of at most half as many bytes, and so on. `on_split(bytes)` is called when so many bytes
// were too many. Ends with the first other error, or when a single item is too large.
// `sizes` are the bytes of each item; `sent` counts the items that went through.
absl::Status SendInParts(const std::vector<size_t>& sizes, const SendPart& send,
                         const std::function<void(size_t bytes)>& on_split, size_t& sent);

}  // namespace svcmap::api
