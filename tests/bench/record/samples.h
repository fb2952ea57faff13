// Every single figure of a run, in one CSV file: what plots, tables and bounds are made of.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::bench {

// One figure. No field may hold a comma.
struct Sample {
  std::string workload;  // The subcommand: "sync", "change", ...
  std::string shape;     // "10000x10", with the mix if it is not the plain one: "10000x10-mixed".
  std::string opponent;
  std::string what;    // What was done: "load", "replace", "tcp-first", ...
  std::string metric;  // "seconds", "kernel_seconds", "cpu_seconds", "rss_kib", ...
  int round = 0;       // Opponents take turns: A B A B; this is which turn.
  double value = 0;
};

class Samples {
 public:
  // The file gets a line "workload,shape,opponent,what,metric,round,value" at its head if it is
  // new, and lines at its end else: subcommands of one run share a file. An empty path: nothing is
  // written.
  static absl::StatusOr<std::unique_ptr<Samples>> Open(const std::string& path);
  ~Samples();

  void Add(const Sample& sample);

  // That there is no figure is one too: `metric` "over-limit" with the limit as value, or "failed"
  // with the reason on standard error.
  void AddOverLimit(Sample sample, double limit_seconds);
  void AddFailed(Sample sample, const absl::Status& why);

 private:
  explicit Samples(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

}  // namespace svcmap::bench
