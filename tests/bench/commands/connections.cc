// svcmap-bench connections: measures the number of new connections per second from a single client.
//
// All compared implementations keep the cluster loaded and take turns, as in svcmap-bench latency.
#include <CLI/CLI.hpp>

#include "tests/bench/commands/contenders.h"

namespace svcmap::bench {
namespace {

class Connections {
 public:
  Connections(const CommonOptions& common, double seconds)
      : common_(common), seconds_(seconds), entrants_(common) {}

  absl::Status Run() {
    for (const ClusterShape& shape : common_.shapes) {
      const Cluster cluster(shape);
      Recorder recorder(*common_.samples, "connections", ShapeText(shape));
      std::vector<Contender> contenders = LoadContenders(common_, cluster, entrants_, recorder);
      for (const Position& position : Positions(cluster)) {
        for (int round = 1; round <= common_.rounds; ++round) {
          for (Contender& contender : contenders) {
            const absl::Status status =
                Turn(contender, cluster.ports()[position.index], position.name, round, recorder);
            if (!status.ok()) return status;
          }
        }
      }
      recorder.Print();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Turn(Contender& contender, const ServicePort& port, const std::string& what,
                    int round, Recorder& recorder) const {
    const auto target = TargetOf(contender.name, port);
    if (!target.ok()) return target.status();
    const auto count =
        CountConnections(*contender.world, *target, std::chrono::duration<double>(seconds_));
    if (!count.ok()) return count.status();
    const auto add = [&](const char* metric, double value) {
      recorder.Add(contender.name, what, metric, round, value);
    };
    add("count", static_cast<double>(count->made));
    add("failures", static_cast<double>(count->failed));
    add("per_second", count->per_second());
    return absl::OkStatus();
  }

  const CommonOptions& common_;
  const double seconds_;
  Entrants entrants_;
};

}  // namespace

void AddConnections(CLI::App& app, const CommonOptions& common, RunCommand& run) {
  auto seconds = std::make_shared<double>(2);
  CLI::App* command = app.add_subcommand("connections", "New connections per second");
  command->add_option("--seconds", *seconds, "Of each turn, at each position")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  command->callback([&common, &run, seconds] {
    run = [&common, seconds] { return Connections(common, *seconds).Run(); };
  });
}

}  // namespace svcmap::bench
