#include "api/grpc/status.h"

#include <cstring>

#include "api/convert/convert.h"
#include "api/convert/error_info.h"
#include "api/grpc/push_limits.h"
#include "google/protobuf/util/time_util.h"
#include "nft/text/nft_text.h"

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

void FillElement(const nft::TableSpecs& tables, const nft::ElementParts& words,
                 v1::ElementChange& element) {
  element.set_change(words.verb == nft::Verb::kAdd ? v1::ElementChange::ADDED
                                                   : v1::ElementChange::DELETED);
  element.set_family(std::string(FamilyName(words.set.family)));
  element.set_set(tables[Index(words.set.family)].sets[words.set.set].name);
  element.set_key(words.key);
  element.set_data(words.data);
  element.set_comment(words.comment);
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
  to = google::protobuf::util::TimeUtil::NanosecondsToDuration(from.count());
}

std::string ToBytes(const proxy::StateToken& token) {
  return {reinterpret_cast<const char*>(token.data()), sizeof(token)};
}

std::optional<proxy::StateToken> TokenFromBytes(const std::string& bytes) {
  proxy::StateToken token = {};
  if (bytes.size() != sizeof(token)) return std::nullopt;
  std::memcpy(token.data(), bytes.data(), sizeof(token));
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

v1::Ack ToAck(const nft::TableSpecs& tables, const proxy::DryRun& dry_run) {
  v1::Ack ack;
  ack.set_revision(dry_run.revision);
  ack.set_held(dry_run.held);
  for (const proxy::Finding& finding : dry_run.findings) *ack.add_results() = ToProto(finding);
  ack.set_outcome(dry_run.rows.empty() ? v1::UNCHANGED : v1::WOULD_CHANGE);
  if (dry_run.rows.empty()) return ack;
  v1::DryRun& reported = *ack.mutable_dry_run();
  reported.set_rewrites_tables(dry_run.recreates);
  uint64_t deleted = 0, added = 0;
  nft::ForEachElementParts(tables, dry_run.rows, [&](const nft::ElementParts& words) {
    ++(words.verb == nft::Verb::kAdd ? added : deleted);
    if (deleted + added > kMaxListedElements) return;
    FillElement(tables, words, *reported.add_elements());
  });
  reported.set_deleted(deleted);
  reported.set_added(added);
  return ack;
}

}  // namespace svcmap::api
