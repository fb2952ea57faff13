// Selects the compared implementations for a cluster shape. If an implementation exceeds the time
// limit or fails with a shape, the implementation is excluded from larger shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/bench/commands/command.h"
#include "tests/bench/record/recorder.h"

namespace svcmap::bench {

// Name of the first step, in which each compared implementation loads the cluster. An
// implementation that cannot load the cluster is excluded.
inline constexpr char kLoad[] = "load";

class Entrants {
 public:
  explicit Entrants(const CommonOptions& common) : common_(common) {}

  // Returns the compared implementations for the shape in the order of their turns. Records that
  // step `what` was not tried with excluded implementations.
  std::vector<std::string> For(const ClusterShape& shape, const std::string& what,
                               Recorder& recorder) const;

  // Records the reason for a failure, and excludes the compared implementation from this shape and
  // larger shapes. The status Unimplemented does not exclude the implementation, because this
  // status does not depend on the size.
  void Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
            int round, const absl::Status& why, Recorder& recorder);
  bool IsOut(const std::string& opponent, const ClusterShape& shape) const;

 private:
  const CommonOptions& common_;
  std::map<std::string, std::vector<ClusterShape>> failed_;
};

// Waits up to ten seconds for the kernel's memory usage to stabilize, and returns the memory usage.
// The kernel frees the memory of deleted namespaces in the background, which can take seconds.
int64_t SettledKernelMemoryKib();

}  // namespace svcmap::bench
