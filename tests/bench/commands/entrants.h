// Selects the compared implementations for a cluster shape. If an implementation exceeds the time
// limit or fails with a shape, the implementation is excluded from larger shapes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"
#include "tests/bench/commands/command.h"
#include "tests/bench/packets/packet_world.h"
#include "tests/bench/record/recorder.h"

namespace svcmap::bench {

// Name of the first step, in which each compared implementation loads the cluster. An
// implementation that cannot load the cluster is excluded.
inline constexpr char kLoad[] = "load";

class Entrants {
 public:
  explicit Entrants(const CommonOptions& common) : common_(common) {}

  // Returns the compared implementations for the shape in the order of their turns. Records that
  // step `what` was not tried with excluded implementations.
  std::vector<std::string> For(const ClusterShape& shape, const std::string& what,
                               Recorder& recorder) const;

  // Records the reason for a failure, and excludes the compared implementation from this shape and
  // larger shapes. The status Unimplemented does not exclude the implementation, because this
  // status does not depend on the size.
  void Fail(const std::string& opponent, const ClusterShape& shape, const std::string& what,
            int round, const absl::Status& why, Recorder& recorder);
  bool IsOut(const std::string& opponent, const ClusterShape& shape) const;

 private:
  const CommonOptions& common_;
  std::map<std::string, std::vector<ClusterShape>> failed_;
};

// Waits up to ten seconds for the kernel's memory usage to stabilize, and returns the memory usage.
// The kernel frees the memory of deleted namespaces in the background, which can take seconds.
int64_t SettledKernelMemoryKib();

// A compared implementation in a separate namespace, and the cluster that it has loaded.
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

// Compared implementations that have the same cluster loaded at the same time, each in a separate
// PacketWorld.
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
