// Constants shared by the program that makes changes and by the test that counts the program's
// instructions.
#pragma once

namespace svcmap::instructions {

inline constexpr int kKinds = 7;     // Number of different kinds of changes.
inline constexpr int kCounted = 32;  // Number of counted changes per kind of change.

}  // namespace svcmap::instructions
