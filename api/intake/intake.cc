#include "api/intake/intake.h"

#include <spdlog/spdlog.h>

namespace svcmap::api {
namespace {

void Log(const std::vector<proxy::Finding>& findings) {
  for (const proxy::Finding& finding : findings) spdlog::warn("{}", finding.ToString());
}

}  // namespace

absl::Status Intake::Submit(proxy::Batch::Mark mark, int size,
                            const std::function<absl::StatusOr<ConvertedChange>(int)>& convert,
                            Done done, const Gate& gate) {
  proxy::Batch batch;
  batch.mark = mark;
  std::vector<ConvertedChange> converted;
  converted.reserve(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    absl::StatusOr<ConvertedChange> change = convert(i);
    if (!change.ok()) return change.status();
    converted.push_back(*std::move(change));
  }
  std::unique_lock<std::mutex> entered;
  if (gate) {
    entered = gate();
    if (!entered.owns_lock()) return absl::AbortedError("another controller has taken over");
  }
  if (mark == proxy::Batch::Mark::kSnapshotBegin) book_.BeginSnapshot();
  if (mark == proxy::Batch::Mark::kSnapshotEnd) book_.EndSnapshot();
  std::vector<proxy::Finding> findings;
  for (ConvertedChange& change : converted) {
    book_.Set(change.kind, change.key, change.findings);
    if (change.change) {
      batch.changes.push_back(*std::move(change.change));
    } else {
      batch.refused.emplace_back(change.kind, change.key);
    }
    findings.insert(findings.end(), change.findings.begin(), change.findings.end());
  }
  Log(findings);
  batch.done = [this, findings = std::move(findings),
                done = std::move(done)](proxy::BatchResult result) mutable {
    book_.Add(result.findings);
    Log(result.findings);
    result.findings.insert(result.findings.begin(), findings.begin(), findings.end());
    if (done) done(std::move(result));
  };
  loop_.Submit(std::move(batch));
  return absl::OkStatus();
}

}  // namespace svcmap::api
