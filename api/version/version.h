// The version of svcmap and the commit of the build.
#pragma once

#include <string>

namespace svcmap::api {

// The line that `program` prints for --version: "svcmapd 0.1.0 (commit 974f78913a2b)". The commit
// ends with "-dirty" if the build contains uncommitted changes, and is "unknown" if the source is
// not a git clone.
std::string VersionLine(const std::string& program);

}  // namespace svcmap::api
