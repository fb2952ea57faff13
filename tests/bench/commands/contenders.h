// Compared implementations that have the same cluster loaded at the same time, each in a separate
// packet world.
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
  // The compared implementation, which runs in the node namespace of the world.
  std::unique_ptr<Opponent> opponent;
};

// Loads all compared implementations that can forward packets. "netlink" is excluded because it has
// maps but no rules. An implementation that cannot be created or loaded is recorded with step
// kLoading and omitted.
inline constexpr char kLoading[] = "load";
std::vector<Contender> LoadContenders(const CommonOptions& common, const Cluster& cluster,
                                      Entrants& entrants, Recorder& recorder);

// Position of a Service in the list of Services. Proxies that search a list need more time for the
// last Service.
struct Position {
  const char* name;  // Name of the position, for example "first".
  size_t index;      // Index of the Service port in Cluster::ports().
};
std::vector<Position> Positions(const Cluster& cluster);

// Returns the address to which clients connect: the cluster IP, or the first endpoint for "direct"
// (no proxy).
absl::StatusOr<FlowTarget> TargetOf(const std::string& opponent, const ServicePort& port);

}  // namespace svcmap::bench
