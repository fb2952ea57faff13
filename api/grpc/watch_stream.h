// A Watch stream: sends the agent's status, and then events in order. No function waits for the
// client. While a message is being sent, the hub stores new events and drops the oldest events.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>

#include "api/grpc/watch_hub.h"
#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::api {

// Joins `hub`. Ends immediately if the hub has `limit` watchers already, or if a quarter of `limit`
// belongs to `peer`. Calls `fill_status` once on the hub's thread. Deletes itself at the end of the
// stream.
grpc::ServerWriteReactor<v1::WatchEvent>* NewWatchStream(
    WatchHub& hub, const std::string& peer, uint32_t limit,
    std::function<void(v1::GetStatusResponse&)> fill_status);

}  // namespace svcmap::api
