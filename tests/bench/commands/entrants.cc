#include <algorithm>
#include <thread>
#include <utility>

#include "tests/bench/commands/entrants.h"

namespace svcmap::bench {

namespace {

// Returns true if `shape` has at least as many Services and at least as many endpoints as `other`.
bool IsAsBig(const ClusterShape& shape, const ClusterShape& other) {
  const auto endpoints = [](const ClusterShape& of) { return int64_t{of.services} * of.endpoints; };
  return shape.services >= other.services && endpoints(shape) >= endpoints(other);
}

}  // namespace

std::vector<std::string> Entrants::For(const ClusterShape& shape, const std::string& what,
                                       Recorder& recorder) const {
  std::vector<std::string> entrants;
  for (const std::string& opponent : common_.opponents) {
    if (opponent == "direct") continue;  // "direct" has no rules to load.
    if (IsOut(opponent, shape)) {
      recorder.AddNotTried(opponent, what, common_.settings.time_limit);
    } else {
      entrants.push_back(opponent);
    }
  }
  return entrants;
}

void Entrants::Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
                    int round, const absl::Status& why, Recorder& recorder) {
  recorder.AddFailure(opponent, what, round, why, common_.settings.time_limit);
  if (!absl::IsUnimplemented(why)) failed_[opponent].push_back(shape);
}

bool Entrants::IsOut(const std::string& opponent, const ClusterShape& shape) const {
  const auto entry = failed_.find(opponent);
  return entry != failed_.end() &&
         std::any_of(entry->second.begin(), entry->second.end(),
                     [&](const ClusterShape& failed) { return IsAsBig(shape, failed); });
}

int64_t SettledKernelMemoryKib() {
  constexpr int64_t kNoise = 256;
  constexpr int kQuiet = 12;  // Required number of consecutive stable samples.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int64_t lowest = KernelMemoryKib();
  for (int quiet = 0; quiet < kQuiet && std::chrono::steady_clock::now() < deadline; ++quiet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int64_t now = KernelMemoryKib();
    if (now < lowest - kNoise) {
      lowest = now;
      quiet = 0;
    }
  }
  return KernelMemoryKib();
}

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

namespace {

absl::StatusOr<Contender> LoadContender(const std::string& name, const OpponentSettings& settings,
                                        const Cluster& cluster) {
  auto world = PacketWorld::Create();
  if (!world.ok()) return world.status();
  auto opponent = MakeOpponent(name, (*world)->node(), settings);
  if (!opponent.ok()) return opponent.status();
  if (const auto cost = (*opponent)->Load(cluster); !cost.ok()) return cost.status();
  return Contender{name, *std::move(world), *std::move(opponent)};
}

}  // namespace

std::vector<Contender> LoadContenders(const CommonOptions& common, const Cluster& cluster,
                                      Entrants& entrants, Recorder& recorder) {
  const ClusterShape& shape = cluster.shape();
  std::vector<Contender> contenders;
  for (const std::string& name : common.opponents) {
    if (name == "netlink") continue;
    if (entrants.IsOut(name, shape)) {
      recorder.AddNotTried(name, kLoad, common.settings.time_limit);
      continue;
    }
    absl::StatusOr<Contender> contender = LoadContender(name, common.settings, cluster);
    if (contender.ok()) {
      contenders.push_back(*std::move(contender));
    } else {
      entrants.Fail(name, shape, kLoad, 0, contender.status(), recorder);
    }
  }
  return contenders;
}

std::vector<Position> Positions(const Cluster& cluster) {
  const size_t count = cluster.ports().size();
  return {{"first", 0}, {"middle", count / 2}, {"last", count - 1}};
}

absl::StatusOr<FlowTarget> TargetOf(const std::string& opponent, const ServicePort& port) {
  const bool direct = opponent == "direct";
  const proxy::EndpointAddress& endpoint = port.endpoints.front().address;
  const auto destination =
      testing::SocketAddress::Parse(direct ? endpoint.ip.ToString() : port.cluster_ip.ToString(),
                                    direct ? endpoint.port : port.port);
  if (!destination.ok()) return destination.status();
  return FlowTarget{port.protocol, *destination};
}

}  // namespace svcmap::bench
