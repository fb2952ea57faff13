// Provides the gRPC services for control, health and reflection on all listeners. A Screen checks
// each connection before gRPC receives the connection (api/screen/screen.h).
//
// Each role has its own gRPC server, and each connection is passed to the server of the client's
// role. Therefore the server on which a call arrives determines the role of the call. gRPC's peer
// name ("fd:7") cannot determine the role. A call may still be queued after its connection was
// closed and the file descriptor was reused for another client.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/access/access.h"
#include "api/daemon/listener.h"
#include "api/grpc/control_service.h"
#include "api/grpc/guarded_control.h"
#include "api/screen/screen.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace svcmap::api {

class Server {
 public:
  // Returns the error that Start() would return because of an address, a socket or a TLS file.
  static absl::Status Check(const ListenOptions& options);
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ListenOptions& options,
                                                       const PushLimits& limits,
                                                       ControlService& service);
  ~Server();  // Closes open streams and removes the Unix sockets.

 private:
  Server(const PushLimits& limits, ControlService& service);
  absl::Status StartServers(const ListenOptions& options, bool has_unix, bool has_tcp);
  absl::Status StartScreen(const ListenOptions& options, bool has_tcp);
  absl::Status StartListener(const ListenOptions& options,
                             const std::vector<ListenAddress>& addresses);
  void TakeUnix(const AllowList& allow, UniqueFd connection, uid_t uid);
  absl::Status StartOne(Role role);

  // Maps gRPC's name of a connection ("fd:7") to the client.
  class Peers {
   public:
    void Set(int fd, const Peer& peer);
    Peer Of(const std::string& connection) const;

   private:
    mutable std::mutex mutex_;
    std::map<std::string, Peer> peers_;  // At most one entry per file descriptor.
  };

  const PushLimits limits_;
  ControlService& service_;
  Peers peers_;
  std::vector<std::unique_ptr<GuardedControl>> guards_;  // Must outlive servers_.
  std::map<Role, std::unique_ptr<grpc::Server>> servers_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace svcmap::api
