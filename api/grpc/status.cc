#include "api/grpc/status.h"

#include "api/convert/convert.h"
#include "api/convert/error_info.h"
#include "api/convert/protocol_version.h"
#include "api/grpc/push_limits.h"

namespace svcmap::api {
namespace {

v1::Outcome ToProto(proxy::BatchResult::Outcome outcome) {
  switch (outcome) {
    case proxy::BatchResult::Outcome::kCommitted:
      return v1::COMMITTED;
    case proxy::BatchResult::Outcome::kUnchanged:
      return v1::UNCHANGED;
    case proxy::BatchResult::Outcome::kPending:
      return v1::HELD;
    case proxy::BatchResult::Outcome::kFailed:
      return v1::FAILED;
  }
  return v1::OUTCOME_UNSPECIFIED;
}

}  // namespace

grpc::Status Error(grpc::StatusCode code, v1::ErrorReason reason, const std::string& message,
                   std::map<std::string, std::string> metadata) {
  return {code, message, EncodeErrorDetails(code, message, {reason, std::move(metadata)})};
}

grpc::Status InvalidField(const std::string& field, const std::string& message) {
  return Error(grpc::INVALID_ARGUMENT, v1::INVALID_FIELD, field + ": " + message,
               {{"field", field}});
}

grpc::Status CheckVersion(std::string_view field, uint32_t version) {
  if (version == kProtocolVersion) return grpc::Status::OK;
  const std::string supported = std::to_string(kProtocolVersion);
  return Error(grpc::FAILED_PRECONDITION, v1::UNSUPPORTED_PROTOCOL_VERSION,
               std::string(field) + " " + std::to_string(version) +
                   " is not supported; supported versions: " + supported,
               {{"field", std::string(field)},
                {"value", std::to_string(version)},
                {"supported", supported}});
}

grpc::Status CheckBatchSize(int objects) {
  if (objects <= kMaxBatchObjects) return grpc::Status::OK;
  return Error(grpc::RESOURCE_EXHAUSTED, v1::LIMIT_REACHED,
               "message contains " + std::to_string(objects) + " objects: must contain at most " +
                   std::to_string(kMaxBatchObjects) + "; send the objects in several messages");
}

grpc::Status NotTaken(const absl::Status& status) {
  const bool stopping = absl::IsUnavailable(status);
  return Error(static_cast<grpc::StatusCode>(status.code()),
               stopping ? v1::STOPPING : v1::UNKNOWN_MESSAGE, std::string(status.message()));
}

void SetDuration(google::protobuf::Duration& to, std::chrono::nanoseconds from) {
  to.set_seconds(from.count() / 1'000'000'000);
  to.set_nanos(static_cast<int32_t>(from.count() % 1'000'000'000));
}

std::string ToBytes(const proxy::StateToken& token) {
  std::string bytes;
  for (const uint64_t part : token) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(part >> shift));
  }
  return bytes;
}

std::optional<proxy::StateToken> TokenFromBytes(const std::string& bytes) {
  proxy::StateToken token = {};
  if (bytes.size() != token.size() * sizeof(token[0])) return std::nullopt;
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint64_t& part = token[i / sizeof(part)];
    part = part << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return token;
}

v1::Ack ToAck(uint64_t number, const proxy::BatchResult& result) {
  v1::Ack ack;
  ack.set_number(number);
  ack.set_revision(result.revision);
  ack.set_outcome(ToProto(result.outcome));
  if (result.outcome == proxy::BatchResult::Outcome::kCommitted) {
    SetDuration(*ack.mutable_commit_duration(), result.commit_duration);
    SetDuration(*ack.mutable_queue_duration(), result.queue_duration);
  }
  for (const proxy::Finding& finding : result.findings) *ack.add_results() = ToProto(finding);
  ack.set_held(result.held);
  if (result.token) ack.set_state_token(ToBytes(*result.token));
  if (!result.error.ok()) ack.set_error(std::string(result.error.message()));
  return ack;
}

}  // namespace svcmap::api
