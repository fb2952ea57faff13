// The control service, health and reflection on all listeners, each behind a guard that knows who
// called from where the call came in.
//
// Calls over a Unix socket are told apart by the gRPC server that they come in by, one for those
// who may write and one for those who may only read. The peer's name, "fd:7", would not do: a call
// may still wait when its connection is gone and another client has descriptor 7.
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
  ~Server();  // Ends open streams and removes the sockets.

 private:
  struct Port {
    std::string listen;   // As given, for messages.
    std::string address;  // As gRPC writes it.
    std::shared_ptr<grpc::ServerCredentials> credentials;
  };

  Server(const PushLimits& limits, ControlService& service);
  absl::Status StartTcp(const ListenOptions& options, const std::vector<Port>& ports);
  absl::Status StartUnix(const AllowList& allow, const std::vector<std::string>& paths);
  absl::StatusOr<grpc::Server*> StartOne(GuardedControl::Identify identify,
                                         const std::vector<Port>& ports);

  // Uids of the connections that may only read, by the name that gRPC gives to the peer; for
  // messages.
  class ReaderNames {
   public:
    void Set(int fd, uid_t uid);
    std::string Of(const std::string& peer) const;

   private:
    mutable std::mutex mutex_;
    std::map<std::string, uid_t> uids_;  // As many as there were descriptors.
  };

  const PushLimits limits_;
  ControlService& service_;
  ReaderNames readers_;
  std::unique_ptr<grpc::ResourceQuota> quota_;                         // Of all servers together.
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // Outlive the servers.
  std::vector<std::unique_ptr<GuardedControl>> guards_;                // These too.
  std::vector<std::unique_ptr<grpc::Server>> servers_;
  std::unique_ptr<UnixListener> unix_;
};

}  // namespace svcmap::api
