// The gRPC server: control service, health and reflection on all listeners.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/grpc/control_service.h"

namespace grpc {
class Server;
}

namespace svcmap::api {

class Server {
 public:
  // `listen` as in DaemonOptions. Unix sockets are made with mode 0600; one that a dead process
  // left is replaced, one that answers is an error.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::vector<std::string>& listen,
                                                       bool insecure, const PushLimits& limits,
                                                       ControlService& service);
  ~Server();  // Ends open streams and removes the sockets.

 private:
  Server() = default;
  std::unique_ptr<grpc::Server> server_;
  struct Socket {
    std::string path;
    uint64_t inode = 0;  // Of the socket we made; another one there is not ours to remove.
  };
  std::vector<Socket> sockets_;
};

}  // namespace svcmap::api
