// Limits of a request. Health checks are requests of a few hundred bytes.
#pragma once

#include <cstddef>

namespace svcmap::api {

// Requests with longer headers are answered with 400.
inline constexpr size_t kMaxHeaders = 8 << 10;
inline constexpr size_t kMaxBody = 8 << 10;  // Requests with longer bodies are answered with 413.
// Twice the maximum body, because evhttp also reads while it writes, and buffers the complete body.
inline constexpr size_t kMaxUnread = 2 * kMaxBody;
inline constexpr size_t kMaxSingleRead = 4 << 10;

}  // namespace svcmap::api
