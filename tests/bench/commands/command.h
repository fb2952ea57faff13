// Interface and common options of the subcommands of svcmap-bench.
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

// Options that precede the subcommand.
struct CommonOptions {
  std::vector<ClusterShape> shapes;
  std::vector<std::string> opponents;  // Compared implementations in the order of their turns.
  int rounds = 3;                      // Number of turns per compared implementation.
  OpponentSettings settings;
  Samples* samples = nullptr;
};

using RunCommand = std::function<absl::Status()>;

// Each function adds a subcommand with its options. Parsing sets `run` to the function that runs
// the subcommand. `common` is complete when `run` is called, and outlives `run`.
void AddSync(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddChange(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddChurn(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddLatency(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddConnections(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddRestart(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddRepair(CLI::App& app, const CommonOptions& common, RunCommand& run);

}  // namespace svcmap::bench
