// Keeps the mirror in sync with a prefix in etcd. follower.h describes the requests.
//
// Uses one connection at a time. After a failure, the next request uses a new connection to the
// next endpoint, and the TLS files are read again.
#pragma once

#include <memory>

#include "api/etcd/follower.h"
#include "api/fleet/etcd_connection.h"

namespace svcmap::etcd {

struct EtcdOptions : fleet::EtcdServers {
  FollowerOptions follower;
};

// Runs its own thread.
class Client {
 public:
  // `mirror` must outlive the Client.
  static std::unique_ptr<Client> Start(EtcdOptions options, Mirror& mirror);
  ~Client();  // Cancels the current request and joins the thread.

  FollowerFacts facts() const;  // Thread-safe.

 private:
  class Worker;
  explicit Client(std::unique_ptr<Worker> worker);
  const std::unique_ptr<Worker> worker_;
};

}  // namespace svcmap::etcd
