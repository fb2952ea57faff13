// Converts statuses and results to gRPC statuses and messages.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "api/grpc/push_stream.h"
#include "api/intake/intake.h"
#include "nft/model/table.h"
#include "nft/netlink/batch.h"
#include "proxy/reconcile/loop.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/saved/object_store.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Returns a status with `reason` and `metadata` as details.
grpc::Status Error(grpc::StatusCode code, v1::ErrorReason reason, const std::string& message,
                   std::map<std::string, std::string> metadata = {});

// Returns RESOURCE_EXHAUSTED if a message has more than kMaxBatchObjects objects.
grpc::Status CheckBatchSize(int objects);

// Returns INVALID_ARGUMENT for a field of a request.
grpc::Status InvalidField(const std::string& field, const std::string& message);

// Returns the status of a request that the intake rejected: UNAVAILABLE or INVALID_ARGUMENT.
grpc::Status NotTaken(const absl::Status& status);

// Returns FAILED_PRECONDITION with the name of the field if the agent does not support `version`.
grpc::Status CheckVersion(std::string_view field, uint32_t version);

void SetDuration(google::protobuf::Duration& to, std::chrono::nanoseconds from);

// Converts a token to and from the bytes in messages.
std::string ToBytes(const proxy::StateToken& token);
// Returns nullopt if `bytes` are not a token.
std::optional<proxy::StateToken> TokenFromBytes(const std::string& bytes);

v1::Ack ToAck(uint64_t number, const proxy::BatchResult& result);

// Maximum number of listed elements, which use about 1 MB.
inline constexpr uint64_t kMaxListedElements = 10'000;

v1::Ack ToAck(const nft::TableSpecs& tables, const proxy::DryRun& dry_run);

// Fill the response of GetStatus from the status of the loop, the intake and the controller.
void FillLoopStatus(const proxy::LoopStatus& status, const nft::TableSpecs& tables,
                    v1::GetStatusResponse& response);
void FillSavedState(const std::string& folder, const proxy::ObjectStoreStatus& store,
                    v1::SavedStateStatus& saved);
void FillController(const std::optional<ActiveSession::Controller>& controller,
                    v1::GetStatusResponse& response);
// `response` must contain the name of the node.
void FillFindings(const Intake& intake, const proxy::LoopStatus& status,
                  v1::GetStatusResponse& response);

void SetTimestamp(google::protobuf::Timestamp& to, std::chrono::system_clock::time_point from);

}  // namespace svcmap::api
