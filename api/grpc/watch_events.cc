#include "api/grpc/watch_events.h"

#include <string>

#include "api/convert/convert.h"
#include "api/grpc/status.h"

namespace svcmap::api {
namespace {

v1::WatchRepair::Outcome ToProto(proxy::RepairResult::Outcome outcome) {
  switch (outcome) {
    case proxy::RepairResult::Outcome::kRepaired:
      return v1::WatchRepair::REPAIRED;
    case proxy::RepairResult::Outcome::kRewrite:
      return v1::WatchRepair::REWRITE;
    case proxy::RepairResult::Outcome::kFailed:
      return v1::WatchRepair::NOT_YET;
    case proxy::RepairResult::Outcome::kNothing:
      break;
  }
  return v1::WatchRepair::OUTCOME_UNSPECIFIED;
}

}  // namespace

void FillCommit(const proxy::SyncResult& result, uint64_t revision, v1::WatchCommit& commit) {
  commit.set_revision(revision);
  SetDuration(*commit.mutable_duration(), result.duration);
  commit.set_elements(result.elements);
  commit.set_services(result.udp.size());  // One entry per committed Service.
  commit.set_tables_written(result.recreated);
}

void FillRecovered(uint64_t revision, std::chrono::nanoseconds after, uint64_t failures,
                   v1::WatchRecovered& recovered) {
  recovered.set_revision(revision);
  SetDuration(*recovered.mutable_after(), after);
  recovered.set_failures(failures);
}

void FillRepair(const proxy::Repaired& repaired, v1::WatchRepair& repair) {
  const proxy::RepairResult& result = repaired.result;
  repair.set_outcome(ToProto(result.outcome));
  repair.set_damage(repaired.what);
  repair.set_process(repaired.process);
  repair.set_elements(result.elements);
  repair.set_chains(result.chains);
  if (result.outcome == proxy::RepairResult::Outcome::kRepaired) {
    SetDuration(*repair.mutable_duration(), result.duration);
  }
  repair.set_error(std::string(result.error.message()));
}

void AddFinding(const proxy::Finding& finding, v1::WatchFindings& findings) {
  if (findings.results_size() < kMaxWatchedFindings) {
    *findings.add_results() = ToProto(finding);
  } else {
    findings.set_more(findings.more() + 1);
  }
}

}  // namespace svcmap::api
