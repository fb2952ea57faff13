// All values of a run in one CSV file, the input of plots, tables and bounds.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::bench {

// One value. Fields may not contain a comma.
struct Sample {
  std::string workload;  // The subcommand, for example "sync" or "change".
  std::string shape;     // For example "10000x10", or "10000x10-mixed" with a mix.
  std::string opponent;
  std::string what;    // The step, for example "load", "replace" or "tcp-first".
  std::string metric;  // For example "seconds", "kernel_seconds", "cpu_seconds" or "rss_kib".
  int round = 0;       // The number of the turn. Opponents take turns: A B A B.
  double value = 0;
};

class Samples {
 public:
  // Appends to an existing file, because the subcommands of a run share a file. A new file starts
  // with the line "workload,shape,opponent,what,metric,round,value". If the path is empty, nothing
  // is written.
  static absl::StatusOr<std::unique_ptr<Samples>> Open(const std::string& path);
  ~Samples();

  void Add(const Sample& sample);

  // Records a missing value. The metric is "over-limit" with the limit as value, or "failed". The
  // reason of a failure is printed to standard error.
  void AddOverLimit(Sample sample, double limit_seconds);
  void AddFailed(Sample sample, const absl::Status& why);

 private:
  explicit Samples(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

}  // namespace svcmap::bench
