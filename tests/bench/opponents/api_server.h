// The API server that a real kube-proxy uses. The benchmark accesses the API server with kubectl.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/opponents/tcp_forwarder.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {

class ApiServer {
 public:
  // Prepares access to the API server. `limit` is the time limit of each kubectl command, except
  // for the final deletion.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Open(const std::string& kubeconfig,
                                                         std::string id,
                                                         std::chrono::seconds limit);
  // Deletes all created objects. If the deletion fails, prints an error to standard error.
  ~ApiServer();

  // Returns the path of a kubeconfig for processes in `netns`. The server address in the kubeconfig
  // is a forwarder on 127.0.0.1 that exists as long as this ApiServer. Clients validate the
  // certificate against the server's real name.
  absl::StatusOr<std::string> Expose(const testing::NetNs& netns);

  // Creates the namespaces, the Node, Services and EndpointSlices.
  absl::Status Create(const Cluster& cluster);
  // Runs kubectl once for all created and changed objects, and once for all deleted objects.
  absl::Status Notify(const std::vector<ClusterChange>& changes);

 private:
  ApiServer(std::string kubeconfig, std::string id, std::chrono::seconds limit,
            testing::TemporaryFolder folder);

  absl::StatusOr<std::string> Kubectl(const std::string& arguments, const std::string& input = "");
  absl::StatusOr<std::string> Kubectl(const std::string& arguments, const std::string& input,
                                      std::chrono::milliseconds limit);
  absl::Status Apply(const std::string& manifests);
  void Mark(v1::ObjectMeta& metadata) const;

  const std::string kubeconfig_;
  const std::string id_;
  const std::chrono::milliseconds limit_;
  const testing::TemporaryFolder folder_;
  std::unique_ptr<TcpForwarder> forwarder_;
  size_t objects_ = 0;  // Number of created objects, including objects that were deleted later.
};

}  // namespace svcmap::bench
