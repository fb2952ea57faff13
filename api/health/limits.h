// How much one who asks may make us keep. Health checks are requests of a few hundred bytes.
#pragma once

#include <cstddef>

namespace svcmap::api {

inline constexpr size_t kMaxHeaders = 8 << 10;  // Longer ones are answered 400.
inline constexpr size_t kMaxBody = 8 << 10;     // Longer ones are answered 413.
// evhttp goes on reading while it writes, and a body has to be here whole before it is taken.
inline constexpr size_t kMaxUnread = 2 * kMaxBody;
inline constexpr size_t kMaxSingleRead = 4 << 10;

}  // namespace svcmap::api
