#include "api/grpc/status.h"

#include <cstring>

#include "api/convert/convert.h"
#include "api/convert/error_info.h"
#include "api/grpc/push_limits.h"
#include "google/protobuf/util/time_util.h"
#include "nft/text/nft_text.h"
#include "proxy/ruleset/table.h"

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

constexpr size_t kMaxFindings = 100;

v1::State StateOf(proxy::Phase phase) {
  switch (phase) {
    case proxy::Phase::kHolding:
    case proxy::Phase::kWaiting:
      return v1::WAITING_FOR_STATE;
    case proxy::Phase::kRetrying:
      return v1::RETRYING;
    case proxy::Phase::kRewriting:
    case proxy::Phase::kRepairing:
    case proxy::Phase::kLoading:
    case proxy::Phase::kServing:
      return v1::SERVING;
  }
  return v1::STATE_UNSPECIFIED;
}

v1::Phase ToProto(proxy::Phase phase) {
  switch (phase) {
    case proxy::Phase::kHolding:
      return v1::PHASE_HOLDING;
    case proxy::Phase::kWaiting:
      return v1::PHASE_WAITING;
    case proxy::Phase::kLoading:
      return v1::PHASE_LOADING;
    case proxy::Phase::kServing:
      return v1::PHASE_SERVING;
    case proxy::Phase::kRewriting:
      return v1::PHASE_REWRITING;
    case proxy::Phase::kRepairing:
      return v1::PHASE_REPAIRING;
    case proxy::Phase::kRetrying:
      return v1::PHASE_RETRYING;
  }
  return v1::PHASE_UNSPECIFIED;
}

// Returns findings that are not about received objects.
std::vector<v1::ObjectResult> AgentFindings(const proxy::LoopStatus& status,
                                            const std::vector<std::string>& source_errors,
                                            const std::string& node_name) {
  std::vector<v1::ObjectResult> findings;
  const auto add = [&](v1::ResultCode code, const std::string& message) -> v1::ObjectResult& {
    v1::ObjectResult& finding = findings.emplace_back();
    finding.set_severity(v1::WARNING);
    finding.set_code(code);
    finding.set_reason(message);
    finding.set_message(message);
    return finding;
  };
  for (const std::string& error : source_errors) add(v1::UNREADABLE, error);
  if (status.complete && !status.node_known && !status.node_eligible) {
    v1::ObjectResult& finding = add(
        v1::NODE_UNKNOWN,
        "Node " + node_name +
            " is not stored: /healthz returns 503, and the node's addresses, zone and pod CIDRs "
            "are unknown; the controller must send the Node object");
    finding.set_kind(v1::KIND_NODE);
    finding.set_name(node_name);
  }
  if (status.held_snapshot) {
    add(v1::SNAPSHOT_HELD,
        "snapshot held: its end would remove " + status.held_snapshot->loss +
            "; stored objects and rules stay in effect; check the controller, or run \"svcmapctl "
            "accept-snapshot\" if the removals are intended");
  }
  return findings;
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

void SetTimestamp(google::protobuf::Timestamp& to, std::chrono::system_clock::time_point from) {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(from.time_since_epoch()).count();
  to = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(nanos);
}

void FillLoopStatus(const proxy::LoopStatus& status, const nft::TableSpecs& tables,
                    v1::GetStatusResponse& response) {
  response.set_state(StateOf(status.phase));
  response.set_phase(ToProto(status.phase));
  response.set_revision(status.revision);
  response.set_service_ports(status.service_ports);
  response.set_pending_changes(status.pending_services + status.waiting_changes.services +
                               status.waiting_changes.slices);
  response.set_last_error(status.last_error);
  response.set_repairs(status.repairs);
  response.set_repaired_elements(status.repaired_elements);
  response.set_repaired_chains(status.repaired_chains);
  response.set_audits(status.audits);
  response.set_leftover_elements(status.leftovers);
  response.set_verified(status.verified);
  response.set_kernel_refused_services(status.rejected_services);
  response.set_elements_written(status.elements_written);
  if (status.oldest_unsynced) {
    const auto age = std::chrono::steady_clock::now() - *status.oldest_unsynced;
    SetTimestamp(*response.mutable_pending_since(),
                 std::chrono::time_point_cast<std::chrono::system_clock::duration>(
                     std::chrono::system_clock::now() - age));
  }
  for (const auto& [kind, count] :
       {std::pair{v1::KIND_SERVICE, status.services},
        std::pair{v1::KIND_ENDPOINT_SLICE, status.slices}, std::pair{v1::KIND_NODE, status.nodes},
        std::pair{v1::KIND_SERVICE_CIDR, status.service_cidrs}}) {
    v1::KindCount* object = response.add_objects();
    object->set_kind(kind);
    object->set_count(count);
  }
  uint64_t endpoints = 0;
  for (const Family family : kFamilies) {
    for (size_t set = 0; set < proxy::RowSetCount(tables[Index(family)]); ++set) {
      if (set == proxy::kMarker) continue;
      const auto count = static_cast<uint64_t>(status.elements[Index(family)][set]);
      v1::MapCount* map = response.add_maps();
      map->set_name(tables[Index(family)].sets[set].name);
      map->set_family(std::string(FamilyName(family)));
      map->set_elements(count);
      const bool has_endpoints = set == proxy::kEndpoints || set == proxy::kAffinityEndpoints ||
                                 set == proxy::kRangeEndpoints ||
                                 set == proxy::kRangeAffinityEndpoints;
      if (has_endpoints) endpoints += count;
    }
  }
  response.set_endpoints(endpoints);
  if (const proxy::StageTime& latency = status.programming_latency; latency.count > 0) {
    v1::ProgrammingLatency* shown = response.mutable_programming_latency();
    shown->set_count(latency.count);
    SetDuration(*shown->mutable_sum(), latency.sum);
    SetDuration(*shown->mutable_last(), latency.last);
    SetDuration(*shown->mutable_longest(), latency.longest);
  }
  for (size_t i = 0; i < proxy::kStages; ++i) {
    const auto stage = static_cast<proxy::Stage>(i);
    const proxy::StageTime& time = status.stages.of(stage);
    v1::StageTime* shown = response.add_stages();
    shown->set_name(std::string(proxy::StageName(stage)));
    shown->set_count(time.count);
    SetDuration(*shown->mutable_sum(), time.sum);
    if (time.count == 0) continue;
    SetDuration(*shown->mutable_longest(), time.longest);
    SetDuration(*shown->mutable_last(), time.last);
  }
  if (status.held_snapshot) {
    response.mutable_held_snapshot()->set_loss(status.held_snapshot->loss);
    SetTimestamp(*response.mutable_held_snapshot()->mutable_since(), status.held_snapshot->since);
  }
  if (status.commits == 0) return;
  v1::CommitStatus* commit = response.mutable_last_commit();
  SetTimestamp(*commit->mutable_time(), status.last_commit_time);
  SetDuration(*commit->mutable_duration(), status.last_commit_duration);
  commit->set_elements(status.last_commit_elements);
}

void FillSavedState(const std::string& folder, const proxy::ObjectStoreStatus& store,
                    v1::SavedStateStatus& saved) {
  saved.set_folder(folder);
  saved.set_bytes(store.bytes);
  saved.set_error(store.error);
  if (store.synced != std::chrono::system_clock::time_point()) {
    SetTimestamp(*saved.mutable_synced(), store.synced);
  }
}

void FillController(const std::optional<ActiveSession::Controller>& controller,
                    v1::GetStatusResponse& response) {
  if (!controller) return;
  v1::ControllerStatus* status = response.mutable_controller();
  status->set_name(controller->name);
  status->set_instance(controller->instance);
  SetTimestamp(*status->mutable_since(), controller->since);
  status->set_in_snapshot(controller->in_snapshot);
  status->set_epoch(controller->epoch);
}

void FillFindings(const Intake& intake, const proxy::LoopStatus& status,
                  v1::GetStatusResponse& response) {
  const std::vector<proxy::Finding> all = intake.Findings();
  const std::vector<v1::ObjectResult> agent =
      AgentFindings(status, intake.SourceErrors(), response.node_name());
  for (const v1::ObjectResult& finding : agent) *response.add_findings() = finding;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i + kMaxFindings >= all.size() + agent.size()) {
      *response.add_findings() = ToProto(all[i]);
    }
  }
  response.set_refused_objects(CountRejected(all));
}

}  // namespace svcmap::api
