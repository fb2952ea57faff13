// Command-line options of svcmap-kube, parsed and validated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/config/kube_proxy_config.h"
#include "api/config/program_options.h"
#include "api/kube/http/api_server.h"
#include "api/kube/watch/list_watch.h"
#include "api/kube/wire/resource.h"
#include "api/source/program.h"

namespace svcmap::kube {

struct KubeOptions : source::AgentOptions {
  std::string kubeconfig;  // Without kubeconfig and master: the service account of the pod.
  std::optional<ServerUrl> master;  // Overrides the kubeconfig (S-290).
  Selection selection;
  WriteOptions writes;
  // The --config file. kubeconfig has the value of the file. The file also contains
  // the defaults of node name and verbosity.
  std::optional<api::ConfigurationFile> config;
  std::vector<std::string> findings;  // Messages to log.
};

api::Parsed<KubeOptions> ParseKubeOptions(int argc, char** argv);

// Uses kubeconfig and master, or the service account of the pod without both (S-290).
absl::StatusOr<ApiServer> FindApiServer(const std::string& kubeconfig,
                                        const std::optional<ServerUrl>& master);

}  // namespace svcmap::kube
