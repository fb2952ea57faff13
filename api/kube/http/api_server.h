// Address of the API server and credentials for it, from a kubeconfig file or from the environment
// of a pod.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

struct ServerUrl {
  std::string scheme;  // "https". "http" is only allowed for the local host.
  std::string host;    // IPv6 addresses are in brackets.
  std::string port;    // Never empty.
  std::string path;    // "" or "/k8s/clusters/c-1", without a trailing slash.

  // "https://10.96.0.1:443/path"
  std::string ToString() const { return scheme + "://" + host + ":" + port + path; }
};

// Errors begin with the URL, unless it may contain a password.
absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& url);

// The URL of a proxy. If `url` is empty, no proxy is used.
struct ProxyUrl {
  std::string url;   // May contain a password.
  std::string name;  // Without user name and password, for messages.
};

// Accepts http, https, socks5 and socks5h. Errors never contain the URL.
absl::StatusOr<ProxyUrl> ParseProxyUrl(std::string url);

std::string HostInUrl(const std::string& host);  // Adds brackets to IPv6 addresses.

// Kubernetes may replace the files of certificates, keys and tokens, so they are read again for
// each request.
struct ApiServer {
  ServerUrl url;
  std::string tls_server_name;  // If empty, the host of the URL.
  ProxyUrl proxy;               // Environment variables are ignored.
  // Each certificate and the key is either a file or PEM text. Without both, `ca` contains the
  // system's CAs, and the client has no certificate.
  api::TlsFiles tls_files;
  api::TlsMaterial tls_text;
  bool insecure_skip_tls_verify = false;
  std::string token;  // If empty, token_file is used.
  std::string token_file;
  std::string username;  // Basic authentication.
  std::string password;
};

// Returns the current context of a kubeconfig file (v1). Relative paths in the file are relative to
// its directory. Errors name the file and the field. `exec` and `auth-provider` are rejected with
// an alternative, because svcmap-kube runs no credential plugins.
absl::StatusOr<ApiServer> ReadKubeconfig(const std::string& path);

// Like ReadKubeconfig, for the content of a file in `folder`. Errors name the field, but never
// contain a value that may be a secret. A pure function.
absl::StatusOr<ApiServer> ParseKubeconfig(std::string_view text, const std::string& folder);

// Reads a token from a file, or returns an error that names the file but does not contain the
// token.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Returns the server and the service account of a pod: KUBERNETES_SERVICE_HOST and
// KUBERNETES_SERVICE_PORT, and the token and CA in `folder`. Tests use another `folder`.
absl::StatusOr<ApiServer> InCluster(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace svcmap::kube
