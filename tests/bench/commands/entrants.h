// Who takes part: an opponent that exceeded the limit, or failed, with some shape is not tried with
// bigger ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/bench/commands/command.h"
#include "tests/bench/record/recorder.h"

namespace svcmap::bench {

inline constexpr char kLoad[] = "load";  // What is done first, and fails first.

class Entrants {
 public:
  explicit Entrants(const CommonOptions& common) : common_(common) {}

  // In the order in which they take turns; those that are out are recorded as not tried at `what`.
  std::vector<std::string> For(const ClusterShape& shape, const std::string& what,
                               Recorder& recorder) const;

  // Records why. It is out from this shape on, except when it is Unimplemented: nothing was too big
  // for it.
  void Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
            int round, const absl::Status& why, Recorder& recorder);
  bool IsOut(const std::string& opponent, const ClusterShape& shape) const;

 private:
  const CommonOptions& common_;
  std::map<std::string, std::vector<ClusterShape>> failed_;
};

// Memory of the whole kernel once it stopped falling: what namespaces that ended held is given back
// in the background, seconds later. Waits for that for ten seconds at most.
int64_t SettledKernelMemoryKib();

}  // namespace svcmap::bench
