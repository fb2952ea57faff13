#include "api/kube/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/version/version.h"
#include "nft/base/status.h"

namespace svcmap::kube {
namespace {

using api::Quote;

bool IsName(std::string_view name, size_t max) {
  return !name.empty() && name.size() <= max &&
         std::all_of(
             name.begin(), name.end(),
             [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.'; }) &&
         absl::ascii_isalnum(name.front()) && absl::ascii_isalnum(name.back());
}

// Checks that `name` is a valid label value. It may be empty.
absl::Status CheckServiceProxyName(const std::string& name) {
  if (name.empty() || IsName(name, 63)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--service-proxy-name: Invalid value: ", Quote(name),
                   ": must be a valid label value: at most 63 letters, digits, '-', '_' and '.', "
                   "with a letter or digit at both ends"));
}

// Checks that `key` is the key of a taint: NAME or PREFIX/NAME. It may be empty.
absl::Status CheckStartupTaint(const std::string& key) {
  const size_t slash = key.find('/');
  const bool prefixed = slash != std::string::npos;
  if (key.empty() || (IsName(std::string_view(key).substr(prefixed ? slash + 1 : 0), 63) &&
                      (!prefixed || IsName(key.substr(0, slash), 253)))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--startup-taint: Invalid value: ", Quote(key),
                   ": must be the key of a taint without value and effect, such as "
                   "svcmap/not-ready"));
}

}  // namespace

api::Parsed<KubeOptions> ParseKubeOptions(int argc, char** argv) {
  api::Parsed<KubeOptions> parsed;
  KubeOptions& options = parsed.options;
  std::string config_path;
  std::string master_url;

  CLI::App app("Sends Services and endpoints from the Kubernetes API to svcmapd.", "svcmap-kube");
  app.set_version_flag("--version", api::VersionLine("svcmap-kube"));
  app.add_option(
      "--config", config_path,
      "kube-proxy configuration file (KubeProxyConfiguration). Uses clientConnection and "
      "hostnameOverride. Exits if the file changes");
  app.add_option(
      "--kubeconfig", options.kubeconfig,
      "Kubeconfig file for the API server [the service account of the pod]. Ignored with --config");
  app.add_option("--master", master_url, "URL of the API server. Overrides the kubeconfig");
  app.add_option("--node-name,--hostname-override", options.selection.node_name,
                 "Name of this node [hostnameOverride of --config, or the host name]");
  app.add_option("--service-proxy-name", options.selection.service_proxy_name,
                 "Select Services with this value of the label "
                 "service.kubernetes.io/service-proxy-name; an empty value selects Services "
                 "without the label");
  app.add_option("--startup-taint", options.writes.startup_taint,
                 "Key of a taint, such as svcmap/not-ready. Remove the taint from this node after "
                 "svcmapd has programmed the Services. Requires the verbs get and patch for nodes");
  app.add_flag("--events", options.writes.events,
               "Create Events for findings about Services and EndpointSlices. Requires the verb "
               "get for services and endpointslices, and create for events in events.k8s.io");
  source::AddAgentOptions(app, options);
  parsed.exit = api::Parse(app, argc, argv);
  if (parsed.exit) return parsed;

  absl::Status problem;
  if (!config_path.empty()) {
    absl::StatusOr<api::ConfigurationFile> file = api::ReadConfigurationFile(config_path);
    if (file.ok()) {
      const api::KubeProxyConfiguration& c = file->config;
      options.kubeconfig = c.client_connection.kubeconfig;
      if (options.selection.node_name.empty()) options.selection.node_name = c.hostname_override;
      if (app.count("-v") == 0) options.verbosity = api::VerbosityOf(c.logging.verbosity);
      if (app.count("--kubeconfig") > 0) {  // As in kube-proxy (S-318).
        options.findings.emplace_back("--kubeconfig is ignored because --config is set");
      }
      options.config = *std::move(file);
    } else {
      problem = file.status();
    }
  }
  const std::string given_name = options.selection.node_name;
  options.selection.node_name = api::NodeName(given_name);
  if (problem.ok() && options.selection.node_name.empty()) {
    problem = absl::InvalidArgumentError("--node-name: Invalid value: " + Quote(given_name) +
                                         ": must not be blank");
  }
  if (problem.ok()) problem = CheckServiceProxyName(options.selection.service_proxy_name);
  if (problem.ok()) problem = CheckStartupTaint(options.writes.startup_taint);
  if (problem.ok() && !master_url.empty()) {
    absl::StatusOr<ServerUrl> master = ParseServerUrl(master_url);
    problem = Annotate(master.status(), "--master");
    if (master.ok()) options.master = *std::move(master);
  }
  if (problem.ok()) problem = source::FinishAgentOptions(options);
  if (!problem.ok()) parsed.exit = api::UsageError("svcmap-kube", problem);
  return parsed;
}

absl::StatusOr<ApiServer> FindApiServer(const std::string& kubeconfig,
                                        const std::optional<ServerUrl>& master) {
  absl::StatusOr<ApiServer> server = ApiServer();
  if (!kubeconfig.empty()) {
    server = ReadKubeconfig(kubeconfig);
  } else if (!master) {
    server = InCluster();
  }
  if (server.ok() && master) server->url = *master;
  return server;
}

}  // namespace svcmap::kube
