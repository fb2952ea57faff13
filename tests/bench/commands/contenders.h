// Compared implementations that have the same cluster loaded at the same time, each in a separate
// PacketWorld.
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
  // The compared implementation, which runs in the network namespace of the node.
  std::unique_ptr<Opponent> opponent;
};

// Creates all compared implementations that can forward packets, and loads the cluster in each
// implementation. Excludes "netlink", which has maps but no rules. If an implementation cannot be
// created or cannot load the cluster, records a failure of step kLoad and omits the
// implementation.
std::vector<Contender> LoadContenders(const CommonOptions& common, const Cluster& cluster,
                                      Entrants& entrants, Recorder& recorder);

// Position of a Service in the list of Services. A proxy that searches a list needs more time for
// the last Service than for the first Service.
struct Position {
  const char* name;  // Name of the position, for example "first".
  size_t index;      // Index of the Service port in Cluster::ports().
};
std::vector<Position> Positions(const Cluster& cluster);

// Returns the address to which clients connect: the cluster IP, or the first endpoint if the
// compared implementation is "direct", which uses no proxy.
absl::StatusOr<FlowTarget> TargetOf(const std::string& opponent, const ServicePort& port);

}  // namespace svcmap::bench
