// One watcher's stream: the agent's status, then events in their order. Nothing here waits for who
// reads: while a message is under way the hub keeps what comes, or forgets it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>

#include "api/grpc/watch_hub.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

// Joins `hub`, and ends at once if that has no room. `fill_status` is called once, on the hub's
// thread. Deletes itself when it is over.
grpc::ServerWriteReactor<v1::WatchEvent>* NewWatchStream(
    WatchHub& hub, uint32_t limit, std::function<void(v1::GetStatusResponse&)> fill_status);

}  // namespace svcmap::api
