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

  // Returns the position of the next Service to change. Consecutive positions are not adjacent,
  // because the data of adjacent Services can share cache lines.
  size_t NextPosition();
  size_t position() const { return position_; }  // Returns the last result of NextPosition().

  absl::StatusOr<Cost> Change(const ClusterChange& change) {
    return opponent_->Change(cluster_, {change});
  }

 private:
  Loaded(std::string name, const ClusterShape& shape) : name_(std::move(name)), cluster_(shape) {}

  std::string name_;
  Cluster cluster_;
  size_t position_ = 0;
  std::optional<testing::NetNs> netns_;
  // Declared after the namespace, because the compared implementation must be destroyed before its
  // namespace.
  std::unique_ptr<Opponent> opponent_;
};

// Creates all compared implementations and loads the cluster in each implementation. If an
// implementation fails, records the failure and omits the implementation.
std::vector<std::unique_ptr<Loaded>> LoadAll(const CommonOptions& common, const ClusterShape& shape,
                                             Entrants& entrants, Recorder& recorder);

}  // namespace svcmap::bench
