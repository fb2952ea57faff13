// Writes gRPC's error messages to svcmapd's log. gRPC reports some errors only through its log
// function.
#pragma once

namespace svcmap::api {

// Replaces gRPC's log function for the process. Further calls have no effect.
void FollowGrpcLog();

}  // namespace svcmap::api
