// Limits for HTTP requests. A health check request has only a few hundred bytes.
#pragma once

#include <chrono>
#include <cstddef>

namespace svcmap::api {

// Requests with longer headers are answered with 400.
inline constexpr size_t kMaxHeaders = 8 << 10;
inline constexpr size_t kMaxBody = 8 << 10;  // Requests with longer bodies are answered with 413.
// Maximum number of unread bytes of a connection. The limit is twice the maximum body size, because
// evhttp also reads while evhttp writes, and buffers the complete body.
inline constexpr size_t kMaxUnread = 2 * kMaxBody;
inline constexpr size_t kMaxSingleRead = 4 << 10;

// Number of requests of one connection that are answered immediately, and the interval of further
// responses.
inline constexpr int kRequestBurst = 10;
inline constexpr std::chrono::milliseconds kRequestInterval{100};
// Limits for the responses on all connections together, except the first response of each
// connection.
inline constexpr double kMaxResponsesAtOnce = 400;
inline constexpr double kMaxResponsesPerSecond = 4000;
inline constexpr std::chrono::milliseconds kResponseTurn{10};  // Interval of delayed responses.

}  // namespace svcmap::api
