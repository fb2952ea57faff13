// Keeps the mirror in sync with a prefix in etcd: sends the requests that the Follower chooses
// (follower.h) and passes the results to it.
//
// Uses one connection at a time. After a failure, the next request uses a new connection to the
// next endpoint, and the TLS files are read again.
#pragma once

#include <grpcpp/grpcpp.h>

#include <mutex>
#include <stop_token>
#include <thread>

#include "api/etcd/follower.h"
#include "api/fleet/etcd_connection.h"

namespace svcmap::etcd {

struct EtcdOptions : fleet::EtcdServers {
  FollowerOptions follower;
};

// Runs its own thread.
class Client {
 public:
  // `mirror` must outlive the Client, whose destructor cancels the current request.
  Client(EtcdOptions options, Mirror& mirror);

  FollowerFacts facts() const;  // Thread-safe.

 private:
  // All functions below are for the thread.
  void Run();
  void Read(const Follower::Request& request, grpc::ClientContext& context);
  void Watch(const Follower::Request& request, grpc::ClientContext& context);
  void Publish();

  Follower follower_;
  fleet::EtcdConnection connection_;

  mutable std::mutex mutex_;
  FollowerFacts facts_;  // Guarded by mutex_.

  std::stop_token stop_;  // Only for the thread.
  std::jthread thread_;   // Last, because the thread uses all members above.
};

}  // namespace svcmap::etcd
