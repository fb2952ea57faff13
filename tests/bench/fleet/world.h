// etcd with the objects of a cluster below two equal prefixes, and their writers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/fleet/etcd_connection.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/fleet/nodes.h"
#include "tests/support/etcd_server.h"
#include "tests/support/netns.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {

// In a new namespace, which the constructor enters.
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

}  // namespace svcmap::bench
