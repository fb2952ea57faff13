#include "api/daemon/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace svcmap::api {
namespace {

double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string Cause(const proxy::Repaired& repaired) {
  if (repaired.what.empty()) return "the kernel was not as committed";
  return repaired.process.empty() ? repaired.what : repaired.what + " by " + repaired.process;
}

}  // namespace

void SetUpLog(int verbosity) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("svcmapd"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(verbosity == 0   ? spdlog::level::info
                    : verbosity == 1 ? spdlog::level::debug
                                     : spdlog::level::trace);
}

void LogSync(const proxy::SyncResult& result, const proxy::LoopStatus& status) {
  switch (result.outcome) {
    case proxy::SyncResult::Outcome::kNothing:
      return;
    case proxy::SyncResult::Outcome::kFailed:
      spdlog::warn("the kernel did not take a batch: {}; trying again",
                   std::string(result.error.message()));
      return;
    case proxy::SyncResult::Outcome::kCommitted:
      spdlog::log(result.recreated ? spdlog::level::info : spdlog::level::debug,
                  "{} {} elements in {:.2f} ms, revision {}",
                  result.recreated ? "tables written whole:" : "committed", result.elements,
                  Milliseconds(result.duration), status.revision);
      return;
  }
}

void LogCleanup(const proxy::Cleanup& cleanup) {
  const uint64_t deleted = cleanup.deleted[0] + cleanup.deleted[1];
  if (!cleanup.error.ok()) {
    spdlog::warn("stale UDP flows of {} Services could not be cleared: {}; trying again",
                 cleanup.services, std::string(cleanup.error.message()));
  } else {
    spdlog::log(deleted > 0 ? spdlog::level::info : spdlog::level::debug,
                "{} stale UDP flows of {} Services cleared in {:.1f} ms, {} entries looked at",
                deleted, cleanup.services, Milliseconds(cleanup.duration), cleanup.entries);
  }
}

void LogBeginning(proxy::Beginning beginning, uint64_t revision) {
  switch (beginning) {
    case proxy::Beginning::kNothing:
      return;
    case proxy::Beginning::kUnknown:
      spdlog::info("rules of revision {} serve until the state is complete", revision);
      return;
    case proxy::Beginning::kSaved:
      spdlog::info(
          "our rules are not in the kernel, or not as they were saved: writing the saved state of "
          "revision {}",
          revision);
      return;
    case proxy::Beginning::kTrusted:
      spdlog::info("revision {} is in the kernel as it was saved, nothing is to be written",
                   revision);
      return;
    case proxy::Beginning::kToVerify:
      spdlog::info(
          "revision {} is in the kernel; somebody has used nf_tables since, so it is compared with "
          "the saved state while it serves",
          revision);
      return;
    case proxy::Beginning::kUpgrade:
      spdlog::info("revision {} is in the kernel under other rules: they are replaced", revision);
      return;
  }
}

void RepairLog::Add(const proxy::Repaired& repaired) {
  const auto now = std::chrono::steady_clock::now();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - refilled_);
  if (seconds.count() > 0) {
    allowed_ = static_cast<int>(std::min<int64_t>(kBurst, allowed_ + seconds.count()));
    refilled_ = now;
  }
  if (allowed_ == 0) {
    ++unsaid_;
    return;
  }
  --allowed_;
  const std::string more =
      unsaid_ == 0 ? "" : fmt::format(" ({} more like this since the last line)", unsaid_);
  unsaid_ = 0;
  const proxy::RepairResult& result = repaired.result;
  switch (result.outcome) {
    case proxy::RepairResult::Outcome::kNothing:
      return;
    case proxy::RepairResult::Outcome::kRepaired:
      spdlog::warn("{}: {} elements and {} chains put right in {:.2f} ms{}", Cause(repaired),
                   result.elements, result.chains, Milliseconds(result.duration), more);
      return;
    case proxy::RepairResult::Outcome::kRewrite:
      spdlog::warn("{}: writing our tables again{}", Cause(repaired), more);
      return;
    case proxy::RepairResult::Outcome::kFailed:
      spdlog::warn("{}: not put right yet: {}; trying again{}", Cause(repaired),
                   std::string(result.error.message()), more);
      return;
  }
}

}  // namespace svcmap::api
