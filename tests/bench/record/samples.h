// Writes all values of a run to one CSV file, which is the input for plots, tables and bounds.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::bench {

// One measured value. Fields must not contain a comma.
struct Sample {
  std::string workload;  // Subcommand, for example "sync" or "change".
  std::string shape;     // Shape of the cluster, for example "10000x10" or "10000x10-mixed".
  std::string opponent;
  std::string what;  // Measured step, for example "load", "replace" or "tcp-first".
  // Metric, for example "seconds", "kernel_seconds", "cpu_seconds" or "rss_kib".
  std::string metric;
  // Number of the turn. The compared implementations take turns in the order A B A B.
  int round = 0;
  double value = 0;
};

class Samples {
 public:
  // Opens the file for appending, because the subcommands of a run share a file. A new file starts
  // with the line "workload,shape,opponent,what,metric,round,value". If the path is empty, no file
  // is written.
  static absl::StatusOr<std::unique_ptr<Samples>> Open(const std::string& path);
  ~Samples();

  void Add(const Sample& sample);

  // AddOverLimit and AddFailed record a missing value. The metric is "over-limit" with the limit as
  // value, or "failed". The reason for a failure is printed to standard error.
  void AddOverLimit(Sample sample, double limit_seconds);
  void AddFailed(Sample sample, const absl::Status& why);

 private:
  explicit Samples(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

}  // namespace svcmap::bench
