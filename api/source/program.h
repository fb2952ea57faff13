// Command-line options that all sources have, for the connection to svcmapd, the status pages and
// the log, and the parts of main() and the metrics that all sources share.
#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/connect/target.h"
#include "api/health/bind_address.h"
#include "api/metrics/families.h"
#include "api/metrics/server.h"
#include "api/process/file_watch.h"
#include "api/source/mirror.h"
#include "api/source/push.h"
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

// Sets up the log, and keeps gRPC initialized until exit.
void SetUpProgram(int verbosity);

// Logs a fatal error and returns the exit code.
int Fail(const absl::Status& status);

// Blocks the signals in all threads, because the main thread receives signals with sigtimedwait.
sigset_t BlockSignals();

// Serves the status pages, and watches the system clock for gRPC, until SIGTERM or SIGINT arrives.
// Also ends if `config`, which may be null, has changed, so that the process is restarted. Returns
// the exit code.
int ServeUntilEnd(const AgentOptions& options, api::Pages pages, const sigset_t& signals,
                  const api::ConfigurationFile* config);

// `name` is the name of the program and of the controller.
PushOptions PushOptionsOf(const AgentOptions& options, const std::string& name);

// Appends the metrics of the mirror, of Push and of certificates, whose names start with `prefix`,
// such as "svcmap_kube_", to `metrics`. The names are never freed, so call the function once.
api::Catalogue WithPushMetrics(const std::string& prefix, api::Catalogue metrics);

void AddPushMetrics(const std::string& prefix, const Mirror::Counts& mirror, const PushFacts& push,
                    const std::vector<api::CertificateExpiry>& certificates, api::Families& page);

}  // namespace svcmap::source
