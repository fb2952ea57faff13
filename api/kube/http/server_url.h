// Parses and validates URLs of API servers and proxies. Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"

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

}  // namespace svcmap::kube
