// A server that only writes messages to streams, as a lower limit for the work of etcd.
#pragma once

#include <memory>
#include <string>

#include "api/fleet/etcd_connection.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::bench {

// Accepts calls of etcd's Watch method, and writes the message of each Send to all of their
// streams. Runs until the process ends. Without a certificate, the server does not use TLS.
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
