// The URLs of API servers and proxies, taken apart and judged. Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace svcmap::kube {

struct ServerUrl {
  std::string scheme;  // "https", or "http" to this machine.
  std::string host;    // IPv6 in brackets.
  std::string port;    // Always there.
  std::string path;    // "" or "/k8s/clusters/c-1": without a slash at its end.

  // "https://10.96.0.1:443/path"
  std::string ToString() const { return scheme + "://" + host + ":" + port + path; }
};

// Errors begin with the URL, unless a password could be in it.
absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& url);

// The proxy without user name and password, for messages. http, https, socks5 and socks5h are
// proxies; errors never show the URL.
absl::StatusOr<std::string> ParseProxyUrl(const std::string& url);

}  // namespace svcmap::kube
