// What gRPC itself complains of goes into our log, and what it says of handshakes is counted: it
// tells nobody else. Any thread.
#pragma once

#include <cstdint>

namespace svcmap::api {

// From then on, for the process. Again has no effect.
void FollowGrpcLog();

// TLS handshakes of this process that failed since then.
uint64_t FailedHandshakes();

}  // namespace svcmap::api
