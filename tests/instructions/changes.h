// What the program that makes changes and the test that counts their instructions agree on.
#pragma once

namespace svcmap::instructions {

inline constexpr int kKinds = 7;     // Of changes.
inline constexpr int kCounted = 32;  // Of each kind.

}  // namespace svcmap::instructions
