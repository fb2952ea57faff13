// What svcmap-kube is told on its command line, checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/config/file.h"
#include "api/health/bind_address.h"
#include "api/kube/http/api_server.h"
#include "api/kube/resource.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

struct KubeOptions {
  std::string kubeconfig;  // Empty, as the next one: what a pod finds.
  std::string master;      // Instead of the server that the kubeconfig names (S-290).
  Selection selection;
  std::string accept;  // What is asked of the API server; of the form of an Accept header.
  std::string agent;   // As given.
  std::string target;  // For gRPC.
  api::TlsFiles tls;
  std::string instance;                                  // Of us: $POD_NAME, or the host name.
  std::optional<api::BindAddress> healthz_bind_address;  // Nothing: nothing is served.
  int verbosity = 0;
  // What --config names. Where fields above have a place there, they are from it.
  std::optional<api::ConfigurationFile> config;
  std::vector<std::string> findings;  // To be logged.
};

// Reads the command line. Where the program shall end at once (--help, --version, bad usage) `exit`
// is set, and what there is to say was printed.
struct ParsedKubeOptions {
  KubeOptions options;
  std::optional<int> exit;
};
ParsedKubeOptions ParseKubeOptions(int argc, char** argv);

// Of kubeconfig and master, or in the cluster (S-290).
absl::StatusOr<ApiServer> FindApiServer(const std::string& kubeconfig, const std::string& master);

}  // namespace svcmap::kube
