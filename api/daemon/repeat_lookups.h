// Decides whether the rules repeat missed lookups (--repeat-lookups, docs/decisions/0011).
#pragma once

#include <string_view>

namespace svcmap::api {

// Returns true if the kernel can miss a key of a map while a commit replaces the data of the key.
// `release` is the output of `uname -r`. Linux 6.17 and 6.12.48 corrected this error (Linux commit
// b2f742c846ca). Returns true if the version is unknown.
bool CanMissReplacedKeys(std::string_view release);

}  // namespace svcmap::api
