#include "tests/bench/commands/entrants.h"

#include <algorithm>
#include <thread>

namespace svcmap::bench {
namespace {

// Returns true if `shape` has at least as many Services and at least as many endpoints as `other`.
bool IsAsBig(const ClusterShape& shape, const ClusterShape& other) {
  const auto endpoints = [](const ClusterShape& of) { return int64_t{of.services} * of.endpoints; };
  return shape.services >= other.services && endpoints(shape) >= endpoints(other);
}

}  // namespace

std::vector<std::string> Entrants::For(const ClusterShape& shape, const std::string& what,
                                       Recorder& recorder) const {
  std::vector<std::string> entrants;
  for (const std::string& opponent : common_.opponents) {
    if (opponent == "direct") continue;  // "direct" has no rules to load.
    if (IsOut(opponent, shape)) {
      recorder.AddNotTried(opponent, what, common_.settings.time_limit);
    } else {
      entrants.push_back(opponent);
    }
  }
  return entrants;
}

void Entrants::Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
                    int round, const absl::Status& why, Recorder& recorder) {
  recorder.AddFailure(opponent, what, round, why, common_.settings.time_limit);
  if (!absl::IsUnimplemented(why)) failed_[opponent].push_back(shape);
}

bool Entrants::IsOut(const std::string& opponent, const ClusterShape& shape) const {
  const auto entry = failed_.find(opponent);
  return entry != failed_.end() &&
         std::any_of(entry->second.begin(), entry->second.end(),
                     [&](const ClusterShape& failed) { return IsAsBig(shape, failed); });
}

int64_t SettledKernelMemoryKib() {
  constexpr int64_t kNoise = 256;
  constexpr int kQuiet = 12;  // Required number of consecutive stable samples.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int64_t lowest = KernelMemoryKib();
  for (int quiet = 0; quiet < kQuiet && std::chrono::steady_clock::now() < deadline; ++quiet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int64_t now = KernelMemoryKib();
    if (now < lowest - kNoise) {
      lowest = now;
      quiet = 0;
    }
  }
  return KernelMemoryKib();
}

}  // namespace svcmap::bench
