#include "tests/bench/commands/loaded.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<Loaded>> Loaded::Load(const std::string& name,
                                                     const ClusterShape& shape,
                                                     const OpponentSettings& settings) {
  absl::StatusOr<testing::NetNs> netns = testing::NetNs::Create();
  if (!netns.ok()) return netns.status();
  std::unique_ptr<Loaded> loaded(new Loaded(name, shape));
  loaded->netns_ = *std::move(netns);
  absl::StatusOr<std::unique_ptr<Opponent>> opponent =
      MakeOpponent(name, *loaded->netns_, settings);
  if (!opponent.ok()) return opponent.status();
  loaded->opponent_ = *std::move(opponent);
  const absl::StatusOr<Cost> cost = loaded->opponent_->Load(loaded->cluster_);
  if (!cost.ok()) return cost.status();
  return loaded;
}

size_t Loaded::NextPosition() {
  constexpr size_t kStride = 7919;
  position_ = (position_ + kStride) % static_cast<size_t>(cluster_.shape().services);
  return position_;
}

std::vector<std::unique_ptr<Loaded>> LoadAll(const CommonOptions& common, const ClusterShape& shape,
                                             Entrants& entrants, Recorder& recorder) {
  std::vector<std::unique_ptr<Loaded>> all;
  for (const std::string& name : entrants.For(shape, kLoad, recorder)) {
    absl::StatusOr<std::unique_ptr<Loaded>> loaded = Loaded::Load(name, shape, common.settings);
    if (loaded.ok()) {
      all.push_back(*std::move(loaded));
    } else {
      entrants.Fail(name, shape, kLoad, 0, loaded.status(), recorder);
    }
  }
  return all;
}

}  // namespace svcmap::bench
