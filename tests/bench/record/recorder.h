// Records the results of one workload and one cluster shape. Writes each value to the samples file,
// which is the input for plots, tables and bounds, and keeps the value for the table at the end of
// the run. Each line of the samples file contains:
//
// - workload: subcommand, for example "sync"
// - shape: shape of the cluster, for example "10000x10" or "10000x10-mixed"
// - opponent: compared implementation
// - what: measured step, for example "load", "replace" or "tcp-first"
// - metric: for example "seconds", "cpu_seconds" or "rss_kib". A missing value has the metric
//   "over-limit" or "not-tried" with the limit as value, or "failed".
// - round: number of the turn
// - value
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/bench/record/statistics.h"

namespace svcmap::bench {

class Recorder {
 public:
  Recorder(std::ostream& samples, std::string workload, std::string shape)
      : samples_(samples), workload_(std::move(workload)), shape_(std::move(shape)) {}

  void Add(const std::string& opponent, const std::string& what, const std::string& metric,
           int round, double value);
  // Records all values of `cost`, in seconds and KiB.
  void Add(const std::string& opponent, const std::string& what, int round, const Cost& cost);

  // Records why a value is missing. DeadlineExceeded means that the step exceeded `limit`.
  // Unimplemented means that the compared implementation does not support the step, so no failure
  // is recorded.
  void AddFailure(const std::string& opponent, const std::string& what, int round,
                  const absl::Status& why, std::chrono::seconds limit);
  // Records the metric "not-tried", because the compared implementation exceeded `limit` with a
  // smaller cluster.
  void AddNotTried(const std::string& opponent, const std::string& what,
                   std::chrono::seconds limit);

  // Prints a Markdown table of the medians, with the ratios to svcmap, and of missing values.
  void Print() const;

 private:
  void Write(const std::string& opponent, const std::string& what, const std::string& metric,
             int round, double value);

  std::ostream& samples_;
  std::string workload_;
  std::string shape_;
  // Values by step, metric and opponent.
  std::map<std::tuple<std::string, std::string, std::string>, Rounds> figures_;
  // Reason why a value is missing, by step and opponent.
  std::map<std::pair<std::string, std::string>, std::string> troubles_;
};

}  // namespace svcmap::bench
