// Where the API server is and who we are to it: from a kubeconfig file, or from what a pod finds.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace svcmap::kube {

// Certificates and keys as PEM. Files are named where Kubernetes replaces them while we run: they
// are read again for new connections.
struct ApiServer {
  std::string url;      // "https://10.96.0.1:443", without a slash at its end.
  std::string ca_file;  // Empty: see ca_pem.
  std::string ca_pem;   // certificate-authority-data. Both empty: what the system trusts.
  bool insecure_skip_tls_verify = false;
  std::string tls_server_name;          // Empty: the host of the URL.
  std::string client_certificate_file;  // Or as text:
  std::string client_certificate_pem;
  std::string client_key_file;
  std::string client_key_pem;
  std::string token;       // Empty: see token_file.
  std::string token_file;  // Read again when it is a minute old, and after a 401.
  std::string username;    // Basic authentication.
  std::string password;
  std::string proxy_url;  // Empty: none, whatever the environment says.
};

// The current context of a kubeconfig file (the public format v1). Relative paths in it are
// relative to its folder. Errors name the file and the field: `exec` and `auth-provider` are
// refused with what to do instead (svcmap-kube starts no programs), so is what is missing.
absl::StatusOr<ApiServer> ReadKubeconfig(const std::string& path);

// Of a pod with a service account: KUBERNETES_SERVICE_HOST and _PORT, token and CA under
// /var/run/secrets/kubernetes.io/serviceaccount (`folder`: for tests).
absl::StatusOr<ApiServer> InCluster(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace svcmap::kube
