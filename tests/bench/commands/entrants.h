// Selects the opponents of a shape: an opponent that exceeded the limit or failed with a shape does
// not take part in larger ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/bench/commands/command.h"
#include "tests/bench/record/recorder.h"

namespace svcmap::bench {

inline constexpr char kLoad[] = "load";  // The first step of each opponent, which detects overload.

class Entrants {
 public:
  explicit Entrants(const CommonOptions& common) : common_(common) {}

  // Returns the opponents in the order of their turns. Excluded opponents are recorded as not tried
  // at `what`.
  std::vector<std::string> For(const ClusterShape& shape, const std::string& what,
                               Recorder& recorder) const;

  // Records the reason. Excludes the opponent from this and larger shapes, unless the reason is
  // Unimplemented, which does not depend on the size.
  void Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
            int round, const absl::Status& why, Recorder& recorder);
  bool IsOut(const std::string& opponent, const ClusterShape& shape) const;

 private:
  const CommonOptions& common_;
  std::map<std::string, std::vector<ClusterShape>> failed_;
};

// Returns the memory of the entire kernel after it is stable. The kernel frees the memory of
// deleted namespaces in the background, seconds later. Waits at most ten seconds.
int64_t SettledKernelMemoryKib();

}  // namespace svcmap::bench
