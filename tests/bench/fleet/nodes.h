// Simulated nodes of a fleet, plain watches for comparison, and watches that never read.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "api/etcd/client.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"

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

}  // namespace svcmap::bench
