// The API server that a real kube-proxy watches, as seen through kubectl.
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
  // Each run of kubectl may take `limit`; the last one, which deletes, as long as it needs.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Open(const std::string& kubeconfig,
                                                         std::string id,
                                                         std::chrono::seconds limit);
  // Deletes all objects it has made; says so on standard error if that fails.
  ~ApiServer();

  // Its kubeconfig for programs in `netns`: a path. The server in it is a forwarder on 127.0.0.1,
  // which lives as long as this; its certificate is checked against the name it has outside.
  absl::StatusOr<std::string> Expose(const testing::NetNs& netns);

  // Namespaces, the Node, Services and slices.
  absl::Status Create(const Cluster& cluster);
  // One kubectl for all that is there afterwards, and one for all that is not.
  absl::Status Tell(const std::vector<ClusterChange>& changes);

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
  size_t objects_ = 0;  // Made here, whatever became of them.
};

}  // namespace svcmap::bench
