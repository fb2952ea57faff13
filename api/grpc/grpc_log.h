// gRPC reports errors only by its log function. They become lines of our log.
#pragma once

namespace svcmap::api {

// From then on, for the process. Again has no effect.
void FollowGrpcLog();

}  // namespace svcmap::api
