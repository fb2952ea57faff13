// What the subcommands of svcmap-bench have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/bench/record/samples.h"

namespace CLI {
class App;
}

namespace svcmap::bench {

// Options that stand before the subcommand.
struct CommonOptions {
  std::vector<ClusterShape> shapes;
  std::vector<std::string> opponents;  // In the order in which they take turns.
  int rounds = 3;                      // Turns of each.
  OpponentSettings settings;
  Samples* samples = nullptr;
};

using RunCommand = std::function<absl::Status()>;

// Each adds its subcommand with its own options. Once parsed, `run` holds what runs it; `common`
// is complete by then, and outlives it.
void AddSync(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddChange(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddChurn(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddLatency(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddConnections(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddRestart(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddRepair(CLI::App& app, const CommonOptions& common, RunCommand& run);

}  // namespace svcmap::bench
