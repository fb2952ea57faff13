// Constants shared by the program that makes changes and the test that counts their instructions.
#pragma once

namespace svcmap::instructions {

inline constexpr int kKinds = 7;     // Number of kinds of changes.
inline constexpr int kCounted = 32;  // Number of counted changes per kind.

}  // namespace svcmap::instructions
