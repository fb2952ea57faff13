// Selects the compared implementations for a shape. An implementation that exceeded the time limit
// or failed with a shape is excluded from larger shapes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/bench/commands/command.h"
#include "tests/bench/record/recorder.h"

namespace svcmap::bench {

// The first step of each compared implementation. A failure of this step indicates overload.
inline constexpr char kLoad[] = "load";

class Entrants {
 public:
  explicit Entrants(const CommonOptions& common) : common_(common) {}

  // Returns the compared implementations for the shape in the order of their turns. Records
  // excluded implementations as not tried at step `what`.
  std::vector<std::string> For(const ClusterShape& shape, const std::string& what,
                               Recorder& recorder) const;

  // Records the reason for a failure. Excludes the compared implementation from this shape and
  // larger shapes, unless the reason is Unimplemented, which does not depend on the size.
  void Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
            int round, const absl::Status& why, Recorder& recorder);
  bool IsOut(const std::string& opponent, const ClusterShape& shape) const;

 private:
  const CommonOptions& common_;
  std::map<std::string, std::vector<ClusterShape>> failed_;
};

// Waits for at most ten seconds until the kernel's memory usage is stable, and returns the memory
// usage. The kernel frees the memory of deleted namespaces in the background, which can take
// seconds.
int64_t SettledKernelMemoryKib();

}  // namespace svcmap::bench
