// svcmap-bench sync: measures the time for loading all Services into an empty node.
//
// The compared implementations take turns (A B A B). Each turn uses a new network namespace. Before
// the recorded turns, each implementation loads a smaller cluster to warm up binaries, kernel
// modules and caches.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "tests/bench/commands/command.h"
#include "tests/bench/commands/entrants.h"

namespace svcmap::bench {
namespace {

constexpr int kMaxWarmUpServices = 1000;

class Sync {
 public:
  explicit Sync(const CommonOptions& common) : common_(common), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      Recorder recorder(*common_.samples, "sync", ShapeText(shape));
      std::vector<std::string> entrants = entrants_.For(shape, kLoad, recorder);
      WarmUp(entrants, shape, recorder);
      const Cluster cluster(shape);
      for (int round = 1; round <= common_.rounds; ++round) {
        for (const std::string& opponent : entrants) {
          if (entrants_.IsOut(opponent, shape)) continue;
          const absl::Status status = Turn(opponent, cluster, round, &recorder);
          if (!status.ok()) entrants_.Fail(opponent, shape, kLoad, round, status, recorder);
        }
        // Rotate the order, so that the next round starts with a different implementation.
        if (!entrants.empty()) {
          std::rotate(entrants.begin(), entrants.begin() + 1, entrants.end());
        }
      }
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  void WarmUp(const std::vector<std::string>& entrants, ClusterShape shape, Recorder& recorder) {
    shape.services = std::min(shape.services, kMaxWarmUpServices);
    const Cluster cluster(shape);
    for (const std::string& opponent : entrants) {
      const absl::Status status = Turn(opponent, cluster, 0, nullptr);
      if (!status.ok()) entrants_.Fail(opponent, shape, kLoad, 0, status, recorder);
    }
  }

  // Measures one turn. If `recorder` is null, the turn is a warm-up and is not recorded.
  absl::Status Turn(const std::string& name, const Cluster& cluster, int round,
                    Recorder* recorder) {
    const absl::StatusOr<testing::NetNs> netns = testing::NetNs::Create();
    if (!netns.ok()) return netns.status();
    const int64_t kernel_before = SettledKernelMemoryKib();
    absl::StatusOr<std::unique_ptr<Opponent>> opponent =
        MakeOpponent(name, *netns, common_.settings);
    if (!opponent.ok()) return opponent.status();
    const ProcessMemory before = (*opponent)->Memory();
    const absl::StatusOr<Cost> load = (*opponent)->Load(cluster);
    if (!load.ok()) return load.status();
    const ProcessMemory after = (*opponent)->Memory();
    const int64_t kernel = SettledKernelMemoryKib() - kernel_before;
    if (recorder == nullptr) return absl::OkStatus();

    recorder->Add(name, kLoad, round, *load);
    const auto endpoints = static_cast<double>(cluster.endpoint_count());
    const auto add = [&](const char* metric, double value) {
      recorder->Add(name, kLoad, metric, round, value);
    };
    if (after.rss_kib > 0) {
      add("rss_kib", static_cast<double>(after.rss_kib));
      add("bytes_per_endpoint",
          static_cast<double>(after.rss_kib - before.rss_kib) * 1024 / endpoints);
    }
    add("kernel_memory_kib", static_cast<double>(kernel));
    add("kernel_bytes_per_endpoint", static_cast<double>(kernel) * 1024 / endpoints);
    return absl::OkStatus();
  }

  const CommonOptions& common_;
  Entrants entrants_;
};

}  // namespace

void AddSync(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  CLI::App* command = app.add_subcommand("sync", "From nothing to everything in the kernel");
  command->callback([&common, &run] { run = [&common] { return Sync(common).Run(); }; });
}

}  // namespace svcmap::bench
