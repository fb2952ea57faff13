// The one place where our statuses become gRPC's and results become acknowledgements.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "proxy/reconcile/loop.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

grpc::Status ToGrpc(const absl::Status& status);

void SetDuration(google::protobuf::Duration& to, std::chrono::nanoseconds from);

// As it stands in messages.
std::string ToBytes(const proxy::StateToken& token);
std::optional<proxy::StateToken> TokenFromBytes(const std::string& bytes);  // If they are one.

v1::Ack ToAck(uint64_t number, const proxy::BatchResult& result);

}  // namespace svcmap::api
