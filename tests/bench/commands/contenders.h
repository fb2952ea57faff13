// Opponents with the same cluster, each in its own packet world, all loaded at the same time.
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
  std::unique_ptr<Opponent> opponent;  // Runs in the node namespace of the world.
};

// Loads the opponents that packets can pass. "netlink" is excluded because it has maps but no
// rules. An opponent that cannot be created or loaded is recorded at kLoading and omitted.
inline constexpr char kLoading[] = "load";
std::vector<Contender> LoadContenders(const CommonOptions& common, const Cluster& cluster,
                                      Entrants& entrants, Recorder& recorder);

// Position in the list of Services. Proxies that search a list take longer for the last Service.
struct Position {
  const char* name;  // For example "first".
  size_t index;      // Index in Cluster::ports().
};
std::vector<Position> Positions(const Cluster& cluster);

// Returns the destination of a client: the cluster IP, or the first endpoint for "direct" (no
// proxy).
absl::StatusOr<FlowTarget> TargetOf(const std::string& opponent, const ServicePort& port);

}  // namespace svcmap::bench
