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

// svcmap-bench change: measures the time from a single change to its kernel commit.
//
// Each compared implementation loads the cluster once per shape, in a separate network namespace.
// The implementations then take turns. In each turn, an implementation makes several changes of
// each kind. The first change of a turn is not recorded, because the CPU caches still contain the
// previous implementation's data.

namespace {

using Clock = std::chrono::steady_clock;

constexpr char kRolling[] = "rolling";
constexpr int kMinSamples = 3;
constexpr int kRollingEndpoints = 1000;
constexpr int kRollingStep = 10;

struct ChangeOptions {
  int samples = 200;
  int budget = 10;
};

// A kind of update, which consists of one or two changes. The second change, if any, reverts the
// first change, so that the cluster size stays constant.
struct Kind {
  const char* what;
  std::function<ClusterChange(Loaded&)> change;
  const char* what_back = nullptr;
  std::function<ClusterChange(Loaded&)> back = {};
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"replace", [](Loaded& on) { return on.cluster().ReplaceEndpoint(on.NextPosition()); }},
      {"n-plus-1", [](Loaded& on) { return on.cluster().AddEndpoint(on.NextPosition()); },
       "n-minus-1", [](Loaded& on) { return on.cluster().RemoveEndpoint(on.position()); }},
      {"new-service",
       [](Loaded& on) { return on.cluster().AddService(on.cluster().shape().endpoints); },
       "deleted-service", [](Loaded& on) { return on.cluster().RemoveLastService(); }},
  };
  return kKinds;
}

class Changes {
 public:
  Changes(const CommonOptions& common, const ChangeOptions& options)
      : common_(common), options_(options), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      Recorder recorder(*common_.samples, "change", ShapeText(shape));
      std::vector<std::unique_ptr<Loaded>> all = LoadAll(common_, shape, entrants_, recorder);
      for (int round = 1; round <= common_.rounds; ++round) {
        std::erase_if(all,
                      [&](const auto& loaded) { return !Turn(*loaded, shape, round, recorder); });
      }
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  // Limits the number and the total time of the changes of one kind in a turn.
  class Budget {
   public:
    explicit Budget(const ChangeOptions& options) : options_(options) {}
    bool Allows(int samples) const {
      if (samples >= options_.samples) return false;
      return samples < kMinSamples || Clock::now() < end_;
    }

   private:
    const ChangeOptions& options_;
    const Clock::time_point end_ = Clock::now() + std::chrono::seconds(options_.budget);
  };

  // Measures one turn of a compared implementation. Returns false if the implementation failed and
  // must not take part in later turns.
  bool Turn(Loaded& on, const ClusterShape& shape, int round, Recorder& recorder) {
    std::string what = "warm-up";
    absl::Status status = on.Change(on.cluster().ReplaceEndpoint(on.NextPosition())).status();
    for (const Kind& kind : Kinds()) {
      const Budget budget(options_);
      for (int i = 0; status.ok() && budget.Allows(i); ++i) {
        status = One(on, what = kind.what, kind.change, round, recorder);
        if (kind.back && status.ok()) {
          status = One(on, what = kind.what_back, kind.back, round, recorder);
        }
      }
    }
    if (status.ok()) status = Roll(on, what = kRolling, round, recorder);
    if (status.ok()) return true;
    entrants_.Fail(on.name(), shape, what, round, status, recorder);
    return false;
  }

  static absl::Status One(Loaded& on, const std::string& what,
                          const std::function<ClusterChange(Loaded&)>& make, int round,
                          Recorder& recorder) {
    const absl::StatusOr<Cost> cost = on.Change(make(on));
    if (!cost.ok()) return cost.status();
    recorder.Add(on.name(), what, round, *cost);
    return absl::OkStatus();
  }

  // Adds a Service, replaces the Service's endpoints in steps like a rolling update of a
  // Deployment, and deletes the Service.
  absl::Status Roll(Loaded& on, const std::string& what, int round, Recorder& recorder) const {
    absl::Status status = on.Change(on.cluster().AddService(kRollingEndpoints)).status();
    const size_t position = on.cluster().ports().size() - 1;
    const Budget budget(options_);
    const auto start = Clock::now();
    int steps = 0;
    for (size_t first = 0; first < kRollingEndpoints && status.ok() && budget.Allows(steps);
         first += kRollingStep, ++steps) {
      status = One(
          on, what,
          [&](Loaded& loaded) {
            return loaded.cluster().ReplaceEndpoints(position, first, kRollingStep);
          },
          round, recorder);
    }
    if (!status.ok()) return status;
    // Duration of the complete rolling update, including the creation of the controller's messages.
    const std::chrono::duration<double> took = Clock::now() - start;
    if (steps == kRollingEndpoints / kRollingStep) {
      recorder.Add(on.name(), what, "all_steps_seconds", round, took.count());
    }
    return on.Change(on.cluster().RemoveLastService()).status();
  }

  const CommonOptions& common_;
  const ChangeOptions& options_;
  Entrants entrants_;
};

}  // namespace

void AddChange(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  auto options = std::make_shared<ChangeOptions>();
  CLI::App* command = app.add_subcommand("change", "Single changes with everything in place");
  command->add_option("--samples", options->samples, "Changes of each kind in a turn")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--budget", options->budget,
                   "Seconds that the changes of one kind may take in a turn; who is slower makes "
                   "fewer, three at least")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->callback([&common, &run, options] {
    run = [&common, options] { return Changes(common, *options).Run(); };
  });
}

}  // namespace svcmap::bench
