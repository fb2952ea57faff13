// Whether this program is built with the address or thread sanitizer. g++ and clang tell it in
// different ways.
#pragma once

namespace svcmap::testing {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SVCMAP_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SVCMAP_SANITIZED
#endif

#ifdef SVCMAP_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace svcmap::testing
