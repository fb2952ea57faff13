// Runs etcd (etcd-server, etcd-client) in a namespace, with a writer of the state that svcmap-etcd
// reads. Clients in the namespace use EtcdPort() of 127.0.0.1. The test uses Unix sockets.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/builders.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::testing {

inline constexpr uint16_t kEtcdPort = 2379;
inline constexpr char kEtcdPrefix[] = "/svcmap/v1/test";

// Returns the port of a member for clients. A single server is member 0.
inline uint16_t EtcdPort(int member) { return static_cast<uint16_t>(kEtcdPort + 10000 * member); }

class EtcdServer {
 public:
  using Cluster = std::vector<std::unique_ptr<EtcdServer>>;

  // Stores data in `folder`. With a certificate in `flags`, the port uses TLS.
  static absl::StatusOr<std::unique_ptr<EtcdServer>> Start(
      const NetNs& netns, const std::string& folder, const std::vector<std::string>& flags = {});
  // Starts a cluster with `count` members, which are numbered from 0.
  static absl::StatusOr<Cluster> StartCluster(const NetNs& netns, const std::string& folder,
                                              int count);

  absl::Status Stop();  // Sends SIGKILL, unless etcd has ended already.
  absl::Status StartAgain();
  absl::Status Signal(int signal) { return process_->Signal(signal); }
  absl::Status AwaitReady();  // Waits until this member answers and the cluster has a leader.
  absl::StatusOr<bool> IsLeader();

  // Runs etcdctl, and returns its output.
  absl::StatusOr<std::string> Control(const std::vector<std::string>& arguments);
  absl::Status SaveBackup(const std::string& path);
  absl::Status RestoreBackup(const std::string& path);  // Restarts etcd.

  const std::string& socket() const { return socket_; }
  pid_t pid() const { return process_->pid(); }

 private:
  EtcdServer(const NetNs& netns, std::string folder, std::vector<std::string> flags, int member,
             int members);
  absl::Status Launch();
  std::string PeerUrl(int member) const;
  std::vector<std::string> ClusterFlags() const;  // Also for a restored backup.

  const NetNs& netns_;
  const std::string folder_;
  const std::vector<std::string> flags_;
  const int member_;
  const int members_;
  const std::string address_;  // The socket, as etcd and etcdctl name it.
  const std::string socket_;
  int restores_ = 0;
  std::unique_ptr<ChildProcess> process_;
};

// A controller that writes to etcd as docs/fleet.md describes. If a member fails, the controller
// sends the same transaction to the next member. Not thread-safe.
class EtcdWriter {
 public:
  // A value for each key below the prefix, or nullopt to delete the key.
  using Values = std::vector<std::pair<std::string, std::optional<std::string>>>;

  EtcdWriter(const std::string& socket, uint64_t epoch, std::string prefix = kEtcdPrefix);
  // Uses the members of a cluster.
  EtcdWriter(const EtcdServer::Cluster& members, uint64_t epoch);
  ~EtcdWriter();

  // Reads the head, after which this writer can write.
  absl::Status Adopt();
  // Writes one transaction with a new head. Returns ABORTED if another writer has written since.
  absl::Status Write(const Values& values);
  absl::Status Put(const Objects& objects);  // In one transaction.
  absl::Status Remove(const std::vector<std::string>& keys);
  absl::Status WriteWithoutHead(const Values& values);
  // Removes the history before the newest revision.
  absl::Status Compact();

  uint64_t seq() const { return seq_; }
  int64_t revision() const { return revision_; }  // Of the last transaction.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  const uint64_t epoch_;
  const std::string prefix_;
  uint64_t seq_ = 0;
  int64_t head_revision_ = 0;
  int64_t revision_ = 0;
};

// Return the key and the protobuf encoding of an object.
std::string EtcdKey(const v1::Object& object);
std::string EtcdValue(const v1::Object& object);

// A TCP proxy on a loopback address of a namespace, which can fail like a broken network.
class TcpProxy {
 public:
  // Accepts connections on 127.0.0.1:`port` and forwards them to 127.0.0.1:`destination`. `netns`
  // must outlive the proxy.
  static absl::StatusOr<std::unique_ptr<TcpProxy>> Start(const NetNs& netns, uint16_t port,
                                                         uint16_t destination);
  ~TcpProxy();

  // Keeps the existing connections open, but discards their data. New connections are forwarded.
  void SwallowExisting() { ++swallow_; }
  // Closes the existing connections, and closes new connections until the call with false.
  void Refuse(bool refuse) { refuse_ = refuse; }
  // Forwards all data only after `delay`, in both directions, and also on new connections. With a
  // long delay, the proxy is dead: it accepts connections and keeps them open.
  void Delay(std::chrono::milliseconds delay) { delay_ = delay; }
  int accepted() const { return accepted_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Pair {
    UniqueFd ends[2];
    std::deque<std::pair<Clock::time_point, std::string>> received[2];  // Not forwarded yet.
    bool swallows = false;
  };

  TcpProxy(const NetNs& netns, UniqueFd listener, uint16_t destination);
  void Run();
  void Accept();
  bool Forward(Pair& pair);  // Returns false if the connection has ended.

  const NetNs& netns_;
  const UniqueFd listener_;
  const uint16_t destination_;
  std::atomic<bool> stopping_ = false, refuse_ = false;
  std::atomic<int> swallow_ = 0, accepted_ = 0;
  std::atomic<std::chrono::milliseconds> delay_{};
  std::vector<Pair> pairs_;  // Used by the thread only.
  std::thread thread_;       // Last, because the thread uses all members above.
};

}  // namespace svcmap::testing
