// svcmap-bench repair: another process damages svcmapd's tables while svcmapd runs or is stopped.
// Measures how long a Service is interrupted, and the time until all tables are restored.
//
// This subcommand measures only svcmap, because kube-proxy restores its rules only at its next full
// sync. The subcommand `restart` measures full syncs.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/bench/commands/command.h"
#include "tests/bench/commit_watch.h"
#include "tests/bench/record/recorder.h"
#include "tests/bench/recovery/node.h"
#include "tests/support/damage.h"
#include "tests/support/process.h"

namespace svcmap::bench {
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
