// Limits for HTTP requests. A health check request has only a few hundred bytes.
#pragma once

#include <cstddef>

namespace svcmap::api {

// Requests with longer headers are answered with 400.
inline constexpr size_t kMaxHeaders = 8 << 10;
inline constexpr size_t kMaxBody = 8 << 10;  // Requests with longer bodies are answered with 413.
// Maximum number of unread bytes of a connection. The limit is twice the maximum body size, because
// evhttp also reads while evhttp writes, and buffers the complete body.
inline constexpr size_t kMaxUnread = 2 * kMaxBody;
inline constexpr size_t kMaxSingleRead = 4 << 10;

}  // namespace svcmap::api
