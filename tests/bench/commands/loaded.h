// A compared implementation in a separate namespace, and the cluster that it has loaded.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/commands/entrants.h"

namespace svcmap::bench {

class Loaded {
 public:
  static absl::StatusOr<std::unique_ptr<Loaded>> Load(const std::string& name,
                                                      const ClusterShape& shape,
                                                      const OpponentSettings& settings);

  const std::string& name() const { return name_; }
  Opponent& opponent() { return *opponent_; }
  Cluster& cluster() { return cluster_; }

  // Returns the position of a Service that is different in each call. The position is not adjacent
  // to the previous position, because neighbours would share cache lines.
  size_t NextPosition();
  size_t position() const { return position_; }  // Returns the last result of NextPosition.

  absl::StatusOr<Cost> Change(const ClusterChange& change) {
    return opponent_->Change(cluster_, {change});
  }

 private:
  Loaded(std::string name, const ClusterShape& shape) : name_(std::move(name)), cluster_(shape) {}

  std::string name_;
  Cluster cluster_;
  size_t position_ = 0;
  std::optional<testing::NetNs> netns_;
  // The compared implementation must be destroyed before its namespace.
  std::unique_ptr<Opponent> opponent_;
};

// Loads all compared implementations at the same time. An implementation that cannot be loaded
// is recorded and omitted.
std::vector<std::unique_ptr<Loaded>> LoadAll(const CommonOptions& common, const ClusterShape& shape,
                                             Entrants& entrants, Recorder& recorder);

}  // namespace svcmap::bench
