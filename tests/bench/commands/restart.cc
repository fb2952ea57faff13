// svcmap-bench restart: measures the duration of a restart on a node with unchanged state.
//
// Restarts svcmapd with its state directory. Measures the time until /healthz returns 200 and until
// svcmapd reports the state as serving, and the number of written elements. For the other compared
// implementations, measures a full sync over the existing rules. All implementations keep the
// cluster loaded and take turns.
#include <CLI/CLI.hpp>
#include <thread>

#include "tests/bench/commands/entrants.h"
#include "tests/bench/commit_watch.h"
#include "tests/bench/recovery/node.h"

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

}  // namespace svcmap::bench
