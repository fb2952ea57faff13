#include "tests/bench/record/recorder.h"

#include "absl/strings/str_cat.h"

namespace svcmap::bench {

void Recorder::Add(const std::string& opponent, const std::string& what, const std::string& metric,
                   int round, double value) {
  samples_.Add({workload_, shape_, opponent, what, metric, round, value});
  figures_[{opponent, what, metric}][round].push_back(value);
}

void Recorder::Add(const std::string& opponent, const std::string& what, int round,
                   const Cost& cost) {
  for (const auto& [metric, value] :
       {std::pair("seconds", cost.seconds), std::pair("kernel_seconds", cost.kernel_seconds),
        std::pair("longest_commit_seconds", cost.longest_commit_seconds),
        std::pair("cpu_seconds", cost.cpu_seconds),
        std::pair("peak_rss_kib", static_cast<double>(cost.peak_rss_kib))}) {
    if (value >= 0) Add(opponent, what, metric, round, value);
  }
}

void Recorder::AddFailure(const std::string& opponent, const std::string& what, int round,
                          const absl::Status& why, std::chrono::seconds limit) {
  if (absl::IsUnimplemented(why)) return;
  const Sample sample{workload_, shape_, opponent, what, "", round, 0};
  if (absl::IsDeadlineExceeded(why)) {
    samples_.AddOverLimit(sample, static_cast<double>(limit.count()));
    troubles_[{opponent, what}] = absl::StrCat("over ", limit.count(), " s");
  } else {
    samples_.AddFailed(sample, why);
    troubles_[{opponent, what}] = "failed";
  }
}

void Recorder::AddNotTried(const std::string& opponent, const std::string& what,
                           std::chrono::seconds limit) {
  samples_.Add(
      {workload_, shape_, opponent, what, "not-tried", 0, static_cast<double>(limit.count())});
  troubles_[{opponent, what}] = "not tried";
}

const Rounds& Recorder::Of(const std::string& opponent, const std::string& what,
                           const std::string& metric) const {
  static const Rounds kNone;
  const auto entry = figures_.find({opponent, what, metric});
  return entry == figures_.end() ? kNone : entry->second;
}

std::string Recorder::Trouble(const std::string& opponent, const std::string& what) const {
  const auto entry = troubles_.find({opponent, what});
  return entry == troubles_.end() ? "" : entry->second;
}

}  // namespace svcmap::bench
