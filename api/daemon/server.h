// Serves the control service, gRPC health checks and reflection on all listeners, and authorizes
// each call by the listener that it arrives on.
//
// Connections to Unix sockets are passed to one of two gRPC servers: one for clients that may
// write, one for clients that may only read. The gRPC peer name, such as "fd:7", cannot identify a
// client: when a queued call runs, its connection may be closed and descriptor 7 may belong to
// another client.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/access/listeners.h"
#include "api/daemon/unix_listener.h"
#include "api/grpc/control_service.h"
#include "api/grpc/guarded_control.h"

namespace grpc {
class ResourceQuota;
class Server;
class ServerCredentials;
}  // namespace grpc

namespace svcmap::api {

class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ListenOptions& options,
                                                       const PushLimits& limits,
                                                       ControlService& service);
  ~Server();  // Closes open streams and removes the Unix sockets.

 private:
  struct Port {
    std::string listen;   // The value of --listen.
    std::string address;  // In gRPC's syntax.
    std::shared_ptr<grpc::ServerCredentials> credentials;
  };

  Server(const PushLimits& limits, ControlService& service);
  absl::Status StartTcp(const ListenOptions& options, const std::vector<Port>& ports);
  absl::Status StartUnix(const AllowList& allow, const std::vector<std::string>& paths);
  absl::StatusOr<grpc::Server*> StartOne(GuardedControl::Identify identify,
                                         const std::vector<Port>& ports);

  // Uids of read-only connections by gRPC peer name, for messages.
  class ReaderNames {
   public:
    void Set(int fd, uid_t uid);
    std::string Of(const std::string& peer) const;

   private:
    mutable std::mutex mutex_;
    std::map<std::string, uid_t> uids_;  // At most one entry per file descriptor number.
  };

  const PushLimits limits_;
  ControlService& service_;
  ReaderNames readers_;
  std::unique_ptr<grpc::ResourceQuota> quota_;                         // Shared by all servers.
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // Must outlive the servers.
  std::vector<std::unique_ptr<GuardedControl>> guards_;                // Must outlive the servers.
  std::vector<std::unique_ptr<grpc::Server>> servers_;
  std::unique_ptr<UnixListener> unix_;
};

}  // namespace svcmap::api
