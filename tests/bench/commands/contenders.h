// Opponents that stand side by side, each in a packet world of its own, all with the same cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"
#include "tests/bench/commands/entrants.h"
#include "tests/bench/packets/first_packets.h"
#include "tests/bench/packets/packet_world.h"

namespace svcmap::bench {

struct Contender {
  std::string name;
  std::unique_ptr<PacketWorld> world;
  std::unique_ptr<Opponent> opponent;  // In the node of the world.
};

// Those of common.opponents that packets can pass: "netlink" has maps, and no rules. Who cannot be
// made or loaded is recorded at kLoading, and missing.
inline constexpr char kLoading[] = "load";
std::vector<Contender> LoadContenders(const CommonOptions& common, const Cluster& cluster,
                                      Entrants& entrants, Recorder& recorder);

// Where in the list of Services one stands: proxies that walk a list take longer for the last.
struct Position {
  const char* name;  // "first"
  size_t index;      // In Cluster::ports().
};
std::vector<Position> Positions(const Cluster& cluster);

// What a client asks for: the cluster IP, or without a proxy ("direct") the first endpoint.
absl::StatusOr<FlowTarget> TargetOf(const std::string& opponent, const ServicePort& port);

}  // namespace svcmap::bench
