// svcmap-bench sync: measures the time for loading all Services into an empty node.
//
// The compared implementations take turns (A B A B). Each turn uses a new network namespace. Before
// the recorded turns, each implementation loads a smaller cluster to warm up binaries, kernel
// modules and caches.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "tests/bench/commands/command.h"
#include "tests/bench/commands/entrants.h"
#include "tests/bench/record/markdown.h"

namespace svcmap::bench {
namespace {

constexpr char kResync[] = "resync";
constexpr char kAboutResync[] =
    "Full sync with everything in place already. svcmap's is a comparison that writes nothing, the "
    "others write everything again: the ratio is not that of two programs doing the same. "
    "kube-proxy does a full sync once an hour in nftables mode, and never by itself in iptables "
    "mode in clusters of more than 1,000 endpoints (S-235).";
constexpr int kMaxWarmUpServices = 1000;

struct SyncOptions {
  bool resync = false;
  bool no_warm_up = false;
};

class Sync {
 public:
  Sync(const CommonOptions& common, const SyncOptions& options)
      : common_(common), options_(options), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      Recorder recorder(*common_.samples, "sync", ShapeText(shape));
      std::vector<std::string> entrants = entrants_.For(shape, kLoad, recorder);
      if (!options_.no_warm_up) WarmUp(entrants, shape, recorder);
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
      Print(recorder, kLoad);
      if (options_.resync) Print(recorder, kResync);
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

    if (!options_.resync) return absl::OkStatus();
    const absl::StatusOr<Cost> resync = (*opponent)->Resync(cluster);
    if (resync.ok()) {
      recorder->Add(name, kResync, round, *resync);
    } else {
      recorder->AddFailure(name, kResync, round, resync.status(), common_.settings.time_limit);
    }
    return absl::OkStatus();
  }

  void Print(const Recorder& recorder, const std::string& what) const {
    std::printf("\n%s\n\n",
                what == kLoad ? "Cold sync: from nothing to everything." : kAboutResync);
    PrintHeader({"Services x endpoints", "opponent", "time", "to svcmap", "to the floor",
                 "in the kernel", "longest commit", "CPU", "RSS", "peak RSS", "kernel memory",
                 "bytes per endpoint", "in the kernel"});
    for (const std::string& opponent : common_.opponents) {
      const auto of = [&](const char* metric) -> const Rounds& {
        return recorder.Of(opponent, what, metric);
      };
      const std::string trouble = recorder.Trouble(opponent, what);
      if (of("seconds").empty() && trouble.empty()) continue;
      PrintRow({recorder.shape(), opponent, trouble.empty() ? SpreadText(of("seconds")) : trouble,
                RatioText(of("seconds"), recorder.Of("svcmap", what, "seconds")),
                RatioText(of("seconds"), recorder.Of("netlink", what, "seconds")),
                SecondsText(of("kernel_seconds")), SecondsText(of("longest_commit_seconds")),
                SecondsText(of("cpu_seconds")), KibText(of("rss_kib")), KibText(of("peak_rss_kib")),
                KibText(of("kernel_memory_kib")), NumberText(of("bytes_per_endpoint")),
                NumberText(of("kernel_bytes_per_endpoint"))});
    }
  }

  const CommonOptions& common_;
  const SyncOptions& options_;
  Entrants entrants_;
};

}  // namespace

void AddSync(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  auto options = std::make_shared<SyncOptions>();
  CLI::App* command = app.add_subcommand("sync", "From nothing to everything in the kernel");
  command->add_flag("--resync", options->resync,
                    "Also a full sync with everything in place already");
  command->add_flag("--no-warm-up", options->no_warm_up, "The very first turn counts");
  command->callback([&common, &run, options] {
    run = [&common, options] { return Sync(common, *options).Run(); };
  });
}

}  // namespace svcmap::bench
