// Address of the API server and credentials for it, from a kubeconfig file or from the environment
// of a pod.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace svcmap::kube {

// Certificates and keys are in PEM format. Kubernetes may replace the files, so they are read again
// for new connections.
struct ApiServer {
  std::string url;      // "https://10.96.0.1:443", without a trailing slash.
  std::string ca_file;  // If empty, ca_pem is used.
  // certificate-authority-data. If ca_file is empty as well, the system's CAs are used.
  std::string ca_pem;
  bool insecure_skip_tls_verify = false;
  std::string tls_server_name;          // If empty, the host of the URL.
  std::string client_certificate_file;  // Either the file or the PEM text.
  std::string client_certificate_pem;
  std::string client_key_file;
  std::string client_key_pem;
  std::string token;       // If empty, token_file is used.
  std::string token_file;  // Read again after a minute, and after a 401.
  std::string username;    // Basic authentication.
  std::string password;
  std::string proxy_url;  // If empty, no proxy is used. Environment variables are ignored.
};

// Returns the current context of a kubeconfig file (v1). Relative paths in the file are relative to
// its directory. Errors name the file and the field. `exec` and `auth-provider` are rejected with
// an alternative, because svcmap-kube runs no credential plugins.
absl::StatusOr<ApiServer> ReadKubeconfig(const std::string& path);

// Returns the server and the service account of a pod: KUBERNETES_SERVICE_HOST and
// KUBERNETES_SERVICE_PORT, and the token and CA in `folder`. Tests use another `folder`.
absl::StatusOr<ApiServer> InCluster(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace svcmap::kube
