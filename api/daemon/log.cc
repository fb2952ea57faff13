#include "api/daemon/log.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Returns the log fields of a repair: the foreign change, the responsible process (if known), and
// the number of suppressed log lines.
std::string RepairFields(const proxy::RepairResult& result, uint64_t suppressed) {
  std::string fields;
  if (!result.damage.empty()) fields += " change=" + LogValue(result.damage);
  if (!result.process.empty()) fields += " process=" + LogValue(result.process);
  if (suppressed > 0) fields += " suppressed=" + std::to_string(suppressed);
  return fields;
}

// Logs new findings that no batch caused, for example after a change of an interface address.
// api/intake logs the findings of batches.
void LogFindings(const std::vector<proxy::PlanFinding>& findings) {
  constexpr size_t kMaxLines = 10;
  size_t count = 0;
  for (const proxy::PlanFinding& found : findings) {
    if (found.sequence != 0 || found.known || ++count > kMaxLines) continue;
    spdlog::warn("finding kind={} name={} error={}", KindName(found.finding.kind),
                 LogValue(found.finding.key), LogValue(found.finding.ToString()));
  }
  if (count > kMaxLines) spdlog::warn("findings not logged count={}", count - kMaxLines);
}

}  // namespace

void LogSync(const proxy::SyncResult& result, const proxy::LoopStatus& status) {
  LogFindings(result.findings);
  switch (result.outcome) {
    case proxy::SyncResult::Outcome::kNothing:
      return;
    case proxy::SyncResult::Outcome::kFailed:
      spdlog::warn("commit failed, retrying error={}", LogValue(result.error));
      return;
    case proxy::SyncResult::Outcome::kCommitted:
      if (!result.replaced_chains.empty()) {
        spdlog::warn("base chains replaced because of another type, hook or priority chains={}",
                     LogValue(absl::StrJoin(result.replaced_chains, ", ")));
      }
      spdlog::log(result.recreated ? spdlog::level::info : spdlog::level::debug,
                  "{} revision={} elements={} duration_ms={:.2f}",
                  result.recreated ? "tables rewritten" : "changes committed", status.revision,
                  result.elements, Milliseconds(result.duration));
      return;
  }
}

void LogCleanup(const proxy::Cleanup& cleanup) {
  const auto log = [&](const char* what, const std::string& scope, const auto& deleted_by_family) {
    const uint64_t deleted = deleted_by_family[0] + deleted_by_family[1];
    if (!cleanup.error.ok()) {
      spdlog::warn("cleanup of {} failed, retrying{} error={}", what, scope,
                   LogValue(cleanup.error));
    } else {
      spdlog::log(deleted > 0 ? spdlog::level::info : spdlog::level::debug,
                  "{} deleted count={}{} entries_read={} duration_ms={:.1f}", what, deleted, scope,
                  cleanup.entries, Milliseconds(cleanup.duration));
    }
  };
  const auto scope = [](size_t services) { return " services=" + std::to_string(services); };
  if (cleanup.services > 0) log("stale UDP flows", scope(cleanup.services), cleanup.deleted);
  if (cleanup.tcp_services > 0) {
    log("stale TCP flows", scope(cleanup.tcp_services), cleanup.deleted_tcp);
  }
  if (cleanup.handshakes) log("stale handshakes", "", cleanup.deleted_handshakes);
  if (cleanup.forgotten_tcp > 0) {
    spdlog::warn(
        "too many TCP endpoints left, connections to some are not reset endpoints={} limit={}",
        cleanup.forgotten_tcp, proxy::Cleaner::kMaxDepartures);
  }
}

void RepairLog::Add(const proxy::RepairResult& result) {
  if (!lines_.Take(1, TokenBucket::Clock::now())) {
    ++unreported_;
    return;
  }
  const std::string fields = RepairFields(result, std::exchange(unreported_, 0));
  switch (result.outcome) {
    case proxy::RepairResult::Outcome::kNothing:
      return;
    case proxy::RepairResult::Outcome::kRepaired:
      spdlog::warn("tables repaired elements={} chains_and_objects={} duration_ms={:.2f}{}",
                   result.elements, result.chains, Milliseconds(result.duration), fields);
      return;
    case proxy::RepairResult::Outcome::kRewrite:
      spdlog::warn("tables damaged, rewriting them completely{}", fields);
      return;
    case proxy::RepairResult::Outcome::kFailed:
      spdlog::warn("repair of the tables failed, retrying error={}{}", LogValue(result.error),
                   fields);
      return;
  }
}

}  // namespace svcmap::api
