// Where svcmapd listens and whom it lets in, as the command line says it. Pure functions.
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
  bool insecure = false;            // tcp:// without TLS, where everybody may read.
  TlsFiles tls;                     // Of the tcp:// listeners.
  AllowList allow;
};

// "/path" or "host:port", as gRPC writes it.
struct ListenAddress {
  bool is_unix = false;
  std::string text;
};
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& listen);

// Whether the options go together; the error names what is missing or too much.
absl::Status CheckListeners(const ListenOptions& options);

}  // namespace svcmap::api
