// The figures of one workload and one shape: each goes to the samples as it comes, and stays here
// for the table at the end.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/bench/record/samples.h"
#include "tests/bench/record/statistics.h"

namespace svcmap::bench {

class Recorder {
 public:
  Recorder(Samples& samples, std::string workload, std::string shape)
      : samples_(samples), workload_(std::move(workload)), shape_(std::move(shape)) {}

  const std::string& shape() const { return shape_; }

  void Add(const std::string& opponent, const std::string& what, const std::string& metric,
           int round, double value);
  // What the cost tells; all in seconds and KiB.
  void Add(const std::string& opponent, const std::string& what, int round, const Cost& cost);

  // Why there is no figure. DeadlineExceeded means that `limit` was too short for it; Unimplemented
  // that there is no such thing to measure, which is no trouble and leaves no sample.
  void AddFailure(const std::string& opponent, const std::string& what, int round,
                  const absl::Status& why, std::chrono::seconds limit);
  // It was not tried, because it exceeded `limit` with less: metric "not-tried".
  void AddNotTried(const std::string& opponent, const std::string& what,
                   std::chrono::seconds limit);

  const Rounds& Of(const std::string& opponent, const std::string& what,
                   const std::string& metric) const;
  // "over 120 s", "failed", "not tried"; empty if nothing went wrong.
  std::string Trouble(const std::string& opponent, const std::string& what) const;

 private:
  Samples& samples_;
  std::string workload_;
  std::string shape_;
  std::map<std::tuple<std::string, std::string, std::string>, Rounds> figures_;
  std::map<std::pair<std::string, std::string>, std::string> troubles_;
};

}  // namespace svcmap::bench
