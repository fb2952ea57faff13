// svcmap-bench restart: measures the duration of a restart on a node with unchanged state.
//
// Restarts svcmapd with its state directory. Measures the time until /healthz returns 200 and until
// svcmapd reports the state as serving, and the number of written elements. For the other compared
// implementations, measures a full sync over the existing rules. All implementations keep the
// cluster loaded and take turns.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/bench/commands/command.h"
#include "tests/bench/commands/entrants.h"
#include "tests/bench/record/recorder.h"
#include "tests/bench/recovery/node.h"
#include "tests/support/damage.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

constexpr std::chrono::milliseconds kHealthPoll{1};
constexpr char kFullSync[] = "full-sync";

struct Comeback {
  double healthy_seconds = 0;  // Time from the start of the process until /healthz returns 200.
  double serving_seconds = 0;
  double elements_written = 0;
  double commits = 0;  // Number of commits by all processes until the kernel has the desired state.
};

absl::StatusOr<Comeback> RestartOnce(RecoveryNode& node, bool kill,
                                     std::chrono::seconds time_limit) {
  absl::Status status = kill ? node.Kill() : node.Stop();
  if (!status.ok()) return status;
  auto watch = CommitWatch::Start(node.netns());
  if (!watch.ok()) return watch.status();
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto too_long = [&](const char* what) {
    return absl::DeadlineExceededError(std::string(what) + "\n" + node.agent().log());
  };
  if (status = node.Launch(); !status.ok()) return status;
  Comeback comeback;
  while (!node.Healthy()) {
    if (Clock::now() > start + time_limit) return too_long("not healthy");
    std::this_thread::sleep_for(kHealthPoll);
  }
  comeback.healthy_seconds = seconds();
  if (status = node.agent().WaitUntilItAnswers(); !status.ok()) return status;
  absl::StatusOr<v1::GetStatusResponse> reported = node.agent().GetStatus();
  while (reported.ok() && reported->state() != v1::SERVING) {
    if (Clock::now() > start + time_limit) return too_long("not serving");
    reported = node.agent().GetStatus();
  }
  if (!reported.ok()) return reported.status();
  comeback.serving_seconds = seconds();
  const absl::StatusOr<Clock::time_point> right = node.AwaitRepair(0);
  if (!right.ok()) return right.status();
  reported = node.agent().GetStatus();
  if (!reported.ok()) return reported.status();
  comeback.elements_written = static_cast<double>(reported->elements_written());
  comeback.commits = (*watch)->Seen().count;
  return comeback;
}

// A compared implementation that has loaded the cluster and is restarted.
struct Restarted {
  std::string name;
  std::unique_ptr<RecoveryNode> svcmap;   // The node on which svcmapd runs. Null for other proxies.
  std::unique_ptr<testing::NetNs> netns;  // Network namespace of a proxy other than svcmap.
  std::unique_ptr<Opponent> opponent;     // A proxy other than svcmap.
};

class RestartCommand {
 public:
  explicit RestartCommand(const CommonOptions& common) : common_(common), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      const Cluster cluster(shape);
      Recorder recorder(*common_.samples, "restart", ShapeText(shape));
      std::vector<Restarted> all;
      for (const std::string& name : entrants_.For(shape, kFullSync, recorder)) {
        if (name == "netlink") continue;  // "netlink" has no state that a restart could restore.
        absl::StatusOr<Restarted> loaded = Load(name, cluster);
        if (loaded.ok()) {
          all.push_back(*std::move(loaded));
        } else {
          entrants_.Fail(name, shape, kFullSync, 0, loaded.status(), recorder);
        }
      }
      for (int round = 1; round <= common_.rounds; ++round) {
        for (Restarted& one : all) {
          if (entrants_.IsOut(one.name, shape)) continue;
          const absl::Status status = Turn(one, cluster, round, recorder);
          if (!status.ok()) entrants_.Fail(one.name, shape, kFullSync, round, status, recorder);
        }
      }
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Restarted> Load(const std::string& name, const Cluster& cluster) const {
    Restarted loaded{.name = name};
    if (name == "svcmap") {
      auto node = RecoveryNode::Create(common_.settings.svcmapd);
      if (!node.ok()) return node.status();
      loaded.svcmap = *std::move(node);
      absl::Status status = loaded.svcmap->Start();
      if (status.ok()) status = loaded.svcmap->Load(cluster.shape());
      if (!status.ok()) return status;
      return loaded;
    }
    absl::StatusOr<testing::NetNs> netns = testing::NetNs::Create();
    if (!netns.ok()) return netns.status();
    loaded.netns = std::make_unique<testing::NetNs>(*std::move(netns));
    auto opponent = MakeOpponent(name, *loaded.netns, common_.settings);
    if (!opponent.ok()) return opponent.status();
    loaded.opponent = *std::move(opponent);
    if (const auto cost = loaded.opponent->Load(cluster); !cost.ok()) return cost.status();
    return loaded;
  }

  absl::Status Turn(Restarted& one, const Cluster& cluster, int round, Recorder& recorder) const {
    if (one.opponent != nullptr) {
      const absl::StatusOr<Cost> cost = one.opponent->Resync(cluster);
      if (!cost.ok()) return cost.status();
      recorder.Add(one.name, kFullSync, round, *cost);
      return absl::OkStatus();
    }
    for (const bool kill : {false, true}) {
      const auto comeback = RestartOnce(*one.svcmap, kill, common_.settings.time_limit);
      if (!comeback.ok()) return comeback.status();
      for (const auto& [metric, value] : {std::pair("healthy_seconds", comeback->healthy_seconds),
                                          std::pair("serving_seconds", comeback->serving_seconds),
                                          std::pair("elements_written", comeback->elements_written),
                                          std::pair("commits", comeback->commits)}) {
        recorder.Add(one.name, kill ? "sigkill" : "sigterm", metric, round, value);
      }
    }
    return absl::OkStatus();
  }

  const CommonOptions& common_;
  Entrants entrants_;
};

}  // namespace

void AddRestart(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  CLI::App* command = app.add_subcommand("restart", "Coming back where nothing changed");
  command->callback([&common, &run] { run = [&common] { return RestartCommand(common).Run(); }; });
}

// svcmap-bench repair: another process damages svcmapd's tables while svcmapd runs or is stopped.
// Measures how long a Service is interrupted, and the time until all tables are restored.
//
// This subcommand measures only svcmap, because kube-proxy restores its rules only at its next full
// sync. The subcommand `restart` measures full syncs.

namespace {

constexpr const char* kDamages[] = {
    "FlushedRuleset", "DeletedTable",  "DeletedBaseChain",    "DeletedRule",
    "AddedDrop",      "AddedElements", "RedirectingElements", "DeletedThousandElements"};
constexpr std::chrono::microseconds kBetweenProbes{500};

struct RepairTimes {
  double outage_seconds = 0;  // Time until the Service answers again over both UDP and TCP.
  // Time until the agent reports the repair and the kernel has the desired state.
  double seconds = 0;
};

// Damages the tables and waits for the repair. Times are measured from the damage, or from the
// agent's start if the agent was stopped.
absl::StatusOr<RepairTimes> DamageAndRepair(RecoveryNode& node, const testing::Damage& damage,
                                            bool stopped) {
  const absl::StatusOr<v1::GetStatusResponse> before = node.agent().GetStatus();
  if (!before.ok()) return before.status();
  const absl::StatusOr<std::string> script = damage.script(node.netns());
  if (!script.ok()) return script.status();
  std::vector<std::unique_ptr<Probe>> probes;
  for (const testing::Protocol protocol : {testing::Protocol::kUdp, testing::Protocol::kTcp}) {
    auto probe = node.StartProbe(protocol, kBetweenProbes);
    if (!probe.ok()) return probe.status();
    probes.push_back(*std::move(probe));
  }
  absl::Status status;
  if (stopped) status = node.Stop();
  auto watch = CommitWatch::Start(node.netns());
  if (status.ok()) status = watch.status();
  if (status.ok()) status = testing::RunNft(node.netns(), *script);
  Clock::time_point from;
  if (stopped && status.ok()) {
    from = Clock::now();
    status = node.Start();
  }
  if (!status.ok()) return status;
  // Do not require a repair if the agent was stopped, because writing the saved state to an empty
  // kernel does not count as a repair.
  const absl::StatusOr<Clock::time_point> repaired =
      node.AwaitRepair(stopped ? 0 : before->repairs() + 1);
  if (!repaired.ok()) return repaired.status();
  if (!stopped) from = (*watch)->Seen().first;
  RepairTimes times{.seconds = std::chrono::duration<double>(*repaired - from).count()};
  for (const std::unique_ptr<Probe>& probe : probes) {
    times.outage_seconds = std::max(
        times.outage_seconds, std::chrono::duration<double>(probe->StopAndMeasure(from)).count());
  }
  return times;
}

class RepairCommand {
 public:
  explicit RepairCommand(const CommonOptions& common) : common_(common) {}

  absl::Status Run() const {
    const auto& opponents = common_.opponents;
    if (std::find(opponents.begin(), opponents.end(), kSvcmap) == opponents.end()) {
      return absl::InvalidArgumentError("repair measures svcmap, which is not among the opponents");
    }
    for (const ClusterShape& shape : common_.shapes) {
      Recorder recorder(*common_.samples, "repair", ShapeText(shape));
      const auto node = RecoveryNode::Create(common_.settings.svcmapd);
      absl::Status status = node.status();
      if (status.ok()) status = (*node)->Start();
      if (status.ok()) status = (*node)->Load(shape);
      for (int round = 1; round <= common_.rounds && status.ok(); ++round) {
        status = Turn(**node, shape, round, recorder);
      }
      if (!status.ok()) return status;
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  static constexpr char kSvcmap[] = "svcmap";

  static std::string What(const std::string& kind, bool stopped) {
    return kind + (stopped ? "-stopped" : "-running");
  }

  // Measures one turn. If a repair fails, records the failure and loads the cluster again.
  absl::Status Turn(RecoveryNode& node, const ClusterShape& shape, int round,
                    Recorder& recorder) const {
    for (const std::string kind : kDamages) {
      for (const bool stopped : {false, true}) {
        const auto times = DamageAndRepair(node, *testing::FindDamage(kind), stopped);
        if (times.ok()) {
          recorder.Add(kSvcmap, What(kind, stopped), "outage_seconds", round,
                       times->outage_seconds);
          recorder.Add(kSvcmap, What(kind, stopped), "seconds", round, times->seconds);
          continue;
        }
        recorder.AddFailure(
            kSvcmap, What(kind, stopped), round,
            absl::InternalError(absl::StrCat(times.status().ToString(), "\n", node.agent().log())),
            common_.settings.time_limit);
        if (absl::Status status = node.Load(shape); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  const CommonOptions& common_;
};

}  // namespace

void AddRepair(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  CLI::App* command = app.add_subcommand("repair", "Outage and repair after damage by others");
  command->callback([&common, &run] { run = [&common] { return RepairCommand(common).Run(); }; });
}

}  // namespace svcmap::bench
