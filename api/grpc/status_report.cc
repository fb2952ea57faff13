#include "api/grpc/status_report.h"

#include "api/convert/convert.h"
#include "api/grpc/status.h"
#include "google/protobuf/util/time_util.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

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
