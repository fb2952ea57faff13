// The listen addresses and authorization flags of svcmapd. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/access/access.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

struct ListenOptions {
  std::vector<std::string> listen;  // "unix:///path" or "tcp://host:port"
  bool insecure = false;  // True if tcp:// listeners may run without TLS, so any client may read.
  TlsFiles tls;           // Certificate files for tcp:// listeners.
  AllowList allow;
};

// A parsed --listen value: `text` is "/path" or "host:port".
struct ListenAddress {
  bool is_unix = false;
  std::string text;
};
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& listen);

// Checks the combination of options. Returns an error that names missing or conflicting flags.
absl::Status CheckListeners(const ListenOptions& options);

}  // namespace svcmap::api
