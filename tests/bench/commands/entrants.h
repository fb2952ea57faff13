// Selects the opponents of a shape. An opponent that exceeded the time limit or failed with a shape
// does not take part in larger shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/bench/commands/command.h"
#include "tests/bench/record/recorder.h"

namespace svcmap::bench {

// The first step of each opponent. This step detects overload.
inline constexpr char kLoad[] = "load";

class Entrants {
 public:
  explicit Entrants(const CommonOptions& common) : common_(common) {}

  // Returns the opponents of the shape in the order of their turns. Excluded opponents are recorded
  // as not tried at step `what`.
  std::vector<std::string> For(const ClusterShape& shape, const std::string& what,
                               Recorder& recorder) const;

  // Records the reason of a failure. Excludes the opponent from this shape and larger shapes,
  // unless the reason is Unimplemented, which does not depend on the size.
  void Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
            int round, const absl::Status& why, Recorder& recorder);
  bool IsOut(const std::string& opponent, const ClusterShape& shape) const;

 private:
  const CommonOptions& common_;
  std::map<std::string, std::vector<ClusterShape>> failed_;
};

// Waits until the memory usage of the kernel is stable, at most ten seconds, and returns it. The
// kernel frees the memory of deleted namespaces in the background, seconds later.
int64_t SettledKernelMemoryKib();

}  // namespace svcmap::bench
