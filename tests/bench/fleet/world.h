// etcd with the objects of a cluster, simulated nodes of a fleet, plain watches for comparison, and
// watches that never read.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "api/etcd/client.h"
#include "api/fleet/etcd_connection.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/support/etcd_server.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {

using Clock = std::chrono::steady_clock;

// The prefix of plain watches. They receive equal objects and changes as the nodes.
inline constexpr char kPlainPrefix[] = "/svcmap/v1/plain";

// The hashes of a set of objects, and a digest that equal sets have in common.
class ObjectSet {
 public:
  void Apply(const std::string& bytes);  // The encoding of a v1::Change.
  uint64_t digest() const { return digest_; }

 private:
  std::unordered_map<std::string, uint64_t> hashes_;
  uint64_t digest_ = 0;
};

// The position that a node has acknowledged, and when. Thread-safe.
class Progress {
 public:
  uint64_t position() const { return position_; }
  Clock::time_point reached() const { return reached_; }

 protected:
  void Reach(uint64_t position) {
    reached_ = Clock::now();
    position_ = position;
  }

 private:
  std::atomic<Clock::time_point> reached_{};
  std::atomic<uint64_t> position_{0};
};

// A node with the client of svcmap-etcd, and with an agent that stores hashes of the objects
// instead of programming them. Positions are sequence numbers in the head.
class Node : public Progress {
 public:
  // With `loses_change`, the agent ignores the first change after the initial list.
  Node(etcd::EtcdOptions options, bool loses_change)
      : loses_change_(loses_change),
        client_(std::move(options), mirror_),
        agent_([this] { Acknowledge(); }) {}
  ~Node() {
    mirror_.End();
    agent_.join();
  }

  etcd::FollowerFacts facts() const { return client_.facts(); }
  // Must not be called while changes arrive.
  uint64_t digest() const { return objects_.digest(); }

 private:
  void Acknowledge();

  bool loses_change_;
  ObjectSet objects_;
  etcd::Mirror mirror_;
  const etcd::Client client_;
  std::thread agent_;
};

// Prints a summary of the nodes. Returns whether all nodes have the objects with this digest.
bool CheckNodes(const std::vector<std::unique_ptr<Node>>& nodes, uint64_t digest);

// Lists a prefix and watches it, with the pages and the connection of svcmap-etcd. Positions are
// revisions. Destroy a PlainNode only while it watches.
class PlainNode : public Progress {
 public:
  // Waits until `gate` is true before each connection. If `first` is not 0, watches from this
  // revision without a list.
  PlainNode(fleet::EtcdServers servers, const std::atomic<bool>& gate, uint64_t first)
      : gate_(gate), first_(first), connection_(std::move(servers)), thread_([this] { Run(); }) {}
  ~PlainNode() {
    stop_ = true;
    context_->TryCancel();
    thread_.join();
  }

  bool connected() const { return connected_; }
  // Failures while `gate` was true.
  int failures() const { return failures_; }

 private:
  void Run();
  absl::Status List();
  absl::Status Watch();  // Always returns an error.

  const std::atomic<bool>& gate_;
  const uint64_t first_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> connected_{false};
  std::atomic<int> failures_{0};
  fleet::EtcdConnection connection_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::thread thread_;
};

// A watch that never reads.
class HungWatch {
 public:
  explicit HungWatch(fleet::EtcdServers servers);
  ~HungWatch() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  fleet::EtcdConnection connection_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream_;
};

// etcd with the objects of a cluster below two equal prefixes, and their writers, in a new
// namespace, which the constructor enters.
class World {
 public:
  using Writer = testing::EtcdWriter;

  static constexpr size_t kChangesPerTransaction = 120;

  // `connections` is the number of nodes and plain watches.
  World(const ClusterShape& shape, bool tls, int connections);

  const testing::NetNs& netns() const { return netns_; }
  const fleet::EtcdServers& servers() const { return servers_; }
  // Files of a server with TLS. Empty without TLS.
  const api::TlsFiles& server_files() const { return server_files_; }
  pid_t etcd() const { return etcd_->pid(); }
  // Digest of the written objects and of the objects of NextChange.
  uint64_t digest() const { return expected_.digest(); }

  Writer& nodes() { return *writers_[0]; }  // Of the prefix of the nodes.
  Writer& plain() { return *writers_[1]; }  // Of kPlainPrefix.
  // The position that nodes or plain watches reach with the last transaction.
  uint64_t Position(const Writer& writer) const;
  uint64_t Put(Writer& writer, const testing::Objects& objects);  // Returns the new position.

  // Replaces an endpoint of the next Service.
  testing::Objects NextChange();
  // Writes a transaction with `count` changes to both prefixes. Returns the size of the values.
  double WriteChanges(size_t count);
  void SetLoopback(const std::string& state);  // "up" or "down"

 private:
  std::vector<std::string> TlsFlags();

  testing::NetNs netns_;
  testing::TemporaryFolder folder_;
  Cluster cluster_;
  size_t change_ = 0;
  ObjectSet expected_;
  fleet::EtcdServers servers_;
  api::TlsFiles server_files_;
  std::unique_ptr<testing::EtcdServer> etcd_;
  std::vector<std::unique_ptr<Writer>> writers_;
};

// Returns the bytes that etcd writes to a plain watch for a transaction with `objects`.
std::string WatchResponseOf(const testing::Objects& objects, uint64_t revision);

// A lower limit for the work of etcd. Accepts calls of etcd's Watch method, and writes the message
// of each Send to all of their streams. Runs until the process ends. Without a certificate, the
// server does not use TLS.
int RunFloor(const api::TlsFiles& files);

// Runs RunFloor in another process.
class FloorServer {
 public:
  // Clients use the TLS files of `etcd`, and the server uses `files`.
  FloorServer(const testing::NetNs& netns, const fleet::EtcdServers& etcd,
              const api::TlsFiles& files);

  const fleet::EtcdServers& servers() const { return servers_; }
  pid_t pid() const { return process_->pid(); }
  void Send(const std::string& message);

 private:
  fleet::EtcdServers servers_;
  std::unique_ptr<testing::ChildProcess> process_;
  std::unique_ptr<fleet::EtcdConnection> connection_;
};

}  // namespace svcmap::bench
