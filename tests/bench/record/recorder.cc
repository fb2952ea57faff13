#include "tests/bench/record/recorder.h"

#include <cstdio>
#include <iomanip>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace svcmap::bench {

void Recorder::Add(const std::string& opponent, const std::string& what, const std::string& metric,
                   int round, double value) {
  Write(opponent, what, metric, round, value);
  figures_[{what, metric, opponent}][round].push_back(value);
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
  if (absl::IsDeadlineExceeded(why)) {
    Write(opponent, what, "over-limit", round, static_cast<double>(limit.count()));
    troubles_[{what, opponent}] = absl::StrCat("over ", limit.count(), " s");
  } else {
    std::fprintf(stderr, "svcmap-bench: %s %s %s %s: %s\n", workload_.c_str(), shape_.c_str(),
                 opponent.c_str(), what.c_str(), std::string(why.message()).c_str());
    Write(opponent, what, "failed", round, 1);
    troubles_[{what, opponent}] = "failed";
  }
}

void Recorder::AddNotTried(const std::string& opponent, const std::string& what,
                           std::chrono::seconds limit) {
  Write(opponent, what, "not-tried", 0, static_cast<double>(limit.count()));
  troubles_[{what, opponent}] = "not tried";
}

void Recorder::Write(const std::string& opponent, const std::string& what,
                     const std::string& metric, int round, double value) {
  // Flush the file, so that no values are lost if the run is aborted.
  samples_ << workload_ << ',' << shape_ << ',' << opponent << ',' << what << ',' << metric << ','
           << round << ',' << std::setprecision(9) << value << std::endl;
}

void Recorder::Print() const {
  std::printf(
      "\n| Services x endpoints | what | opponent | metric | median | p99 | values | to svcmap |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const auto& [key, rounds] : figures_) {
    const auto& [what, metric, opponent] = key;
    const std::vector<double> values = AllRounds(rounds);
    const auto reference = figures_.find({what, metric, "svcmap"});
    const double ratio = reference == figures_.end() ? 0 : Ratio(rounds, reference->second);
    std::printf("| %s | %s | %s | %s | %.4g | %.4g | %zu | %s |\n", shape_.c_str(), what.c_str(),
                opponent.c_str(), metric.c_str(), Median(values), Percentile(values, 0.99),
                values.size(), ratio == 0 ? "-" : absl::StrFormat("%.3gx", ratio).c_str());
  }
  for (const auto& [key, trouble] : troubles_) {
    std::printf("| %s | %s | %s | %s | - | - | - | - |\n", shape_.c_str(), key.first.c_str(),
                key.second.c_str(), trouble.c_str());
  }
  std::fflush(stdout);
}

}  // namespace svcmap::bench
