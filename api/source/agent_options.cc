#include "api/source/agent_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "api/config/program_options.h"
#include "api/convert/quote.h"
#include "nft/base/status.h"

namespace svcmap::source {
namespace {

absl::StatusOr<api::BindAddress> ParseBindAddress(const std::string& text) {
  const absl::StatusOr<api::BindAddress> at = api::BindAddress::Parse(text, /*default_port=*/0);
  if (at.ok() && at->port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid value: ", api::Quote(text), ": must contain a port"));
  }
  return at;
}

std::string Instance() {
  const char* pod = std::getenv("POD_NAME");
  return pod != nullptr && *pod != '\0' ? pod : api::NodeName("");
}

}  // namespace

void AddAgentOptions(CLI::App& app, AgentOptions& options) {
  app.add_option("--agent", options.agent, "Address of svcmapd: unix:///path or tcp://host:port")
      ->capture_default_str();
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file with the CA certificates that verify svcmapd's certificate (tcp:// "
                 "only). " +
                     app.get_name() + " reads all --tls-* files again for each connection");
  app.add_option("--tls-cert", options.tls.certificate,
                 "PEM file with the client certificate (tcp:// only)");
  app.add_option("--tls-key", options.tls.key,
                 "PEM file with the private key of the client certificate (tcp:// only)");
  app.add_option("--healthz-bind-address", options.healthz,
                 "Address and port of /healthz, /livez and /metrics; an empty value disables them");
  app.add_flag("-v", options.verbosity, "Increase log verbosity; -vv for maximum");
}

absl::Status FinishAgentOptions(AgentOptions& options) {
  options.instance = Instance();
  const absl::StatusOr<std::string> target = api::ParseTarget(options.agent);
  if (!target.ok()) return Annotate(target.status(), "--agent");
  options.target = *target;
  if (absl::Status status = api::CheckTlsFlags(options.tls, options.agent); !status.ok()) {
    return status;
  }
  if (options.healthz.empty()) return absl::OkStatus();
  const absl::StatusOr<api::BindAddress> at = ParseBindAddress(options.healthz);
  if (!at.ok()) return Annotate(at.status(), "--healthz-bind-address");
  options.healthz_bind_address = *at;
  return absl::OkStatus();
}

}  // namespace svcmap::source
