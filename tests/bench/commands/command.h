// Interface and common options of svcmap-bench's subcommands.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/opponents/opponent.h"

namespace CLI {
class App;
}

namespace svcmap::bench {

// Options that all subcommands have in common.
struct CommonOptions {
  std::vector<ClusterShape> shapes;
  std::vector<std::string> opponents;  // Compared implementations in the order of their turns.
  int rounds = 3;                      // Number of rounds for each implementation.
  OpponentSettings settings;
  std::ostream* samples = nullptr;
};

using RunCommand = std::function<absl::Status()>;

// Each function adds a subcommand with its options. Parsing the command line sets `run` to the
// function that runs the selected subcommand. `common` must be complete when `run` is called, and
// must outlive `run`.
void AddSync(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddChange(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddChurn(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddLatency(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddConnections(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddRestart(CLI::App& app, const CommonOptions& common, RunCommand& run);
void AddRepair(CLI::App& app, const CommonOptions& common, RunCommand& run);

}  // namespace svcmap::bench
