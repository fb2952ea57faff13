#include "tests/bench/commands/contenders.h"

#include <utility>

namespace svcmap::bench {
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
