// Command-line options that all sources have: the connection to svcmapd, the status pages and the
// log.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/connect/target.h"
#include "api/health/bind_address.h"
#include "api/tls/tls_files.h"

namespace CLI {
class App;
}

namespace svcmap::source {

struct AgentOptions {
  std::string agent{api::kDefaultAddress};  // Address of svcmapd as given on the command line.
  std::string target;                       // Address of svcmapd for gRPC.
  api::TlsFiles tls;
  std::string instance;  // Instance of this controller: $POD_NAME, or the host name.
  std::string healthz;   // As given on the command line.
  std::optional<api::BindAddress> healthz_bind_address;  // Absent: no HTTP server.
  int verbosity = 0;
};

void AddAgentOptions(CLI::App& app, AgentOptions& options);

// Sets `target`, `instance` and `healthz_bind_address`. Returns an error that names the flag if a
// value is invalid.
absl::Status FinishAgentOptions(AgentOptions& options);

}  // namespace svcmap::source
