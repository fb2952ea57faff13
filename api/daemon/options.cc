#include "api/daemon/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>

#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr std::string_view kUnixScheme = "unix://";
constexpr std::string_view kTcpScheme = "tcp://";

// Trimmed and lower case (S-29).
std::string NodeName(std::string name) {
  if (name.empty()) {
    char host[HOST_NAME_MAX + 1] = {};
    gethostname(host, HOST_NAME_MAX);
    name = host;
  }
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  name.erase(name.begin(), std::find_if_not(name.begin(), name.end(), blank));
  name.erase(std::find_if_not(name.rbegin(), name.rend(), blank).base(), name.end());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

}  // namespace

absl::StatusOr<proxy::RulesetOptions> ParseClusterCidr(const std::string& text) {
  proxy::RulesetOptions options;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string item(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    const std::optional<IpPrefix> prefix = IpPrefix::Parse(item);
    if (!prefix) {
      return absl::InvalidArgumentError("--cluster-cidr \"" + item + "\" is not an address block");
    }
    auto& slot = options.cluster_cidr[Index(prefix->family())];
    if (slot) {
      return absl::InvalidArgumentError("--cluster-cidr \"" + item + "\" is the second block of " +
                                        std::string(FamilyName(prefix->family())));
    }
    slot = *prefix;
  }
  return options;
}

absl::StatusOr<std::string> GrpcAddress(const std::string& listen, bool insecure) {
  if (listen.starts_with(kUnixScheme) && listen.size() > kUnixScheme.size() &&
      listen[kUnixScheme.size()] == '/') {
    return "unix:" + listen.substr(kUnixScheme.size());
  }
  if (listen.starts_with(kTcpScheme) && listen.find(':', kTcpScheme.size()) != std::string::npos) {
    const std::string port = listen.substr(listen.rfind(':') + 1);
    unsigned number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
      return absl::InvalidArgumentError("--listen " + listen + ": port " + port +
                                        " is not in 1..65535");
    }
    if (insecure) return listen.substr(kTcpScheme.size());
    return absl::InvalidArgumentError(
        "--listen " + listen +
        " would let anybody who reaches it program this node; TLS does not exist yet, say "
        "--insecure if that is what you want");
  }
  return absl::InvalidArgumentError("--listen \"" + listen +
                                    "\" is neither unix:///path nor tcp://host:port");
}

ParsedOptions ParseDaemonOptions(int argc, char** argv) {
  ParsedOptions parsed;
  DaemonOptions& options = parsed.options;
  std::string cluster_cidr;
  std::string node_port_addresses = "primary";

  CLI::App app("svcmapd programs this node's Kubernetes Services into nftables maps.", "svcmapd");
  app.set_version_flag("--version", std::string("svcmapd ") + SVCMAP_VERSION);
  app.add_option("--listen", options.listen,
                 std::string("Where controllers and svcmapctl connect: unix:///path or "
                             "tcp://host:port; repeatable (default ") +
                     kDefaultListen + ")");
  app.add_flag("--insecure", options.insecure, "Allow tcp:// listeners, without encryption");
  app.add_option("--manifests", options.manifests,
                 "Take the state from this file or folder of Kubernetes manifests, and follow it, "
                 "instead of a controller");
  app.add_option("--node-name", options.node_name, "Name of this node (default: the host name)");
  app.add_option("--cluster-cidr", cluster_cidr,
                 "Pod address blocks, one per family, separated by a comma; clusterIP traffic from "
                 "elsewhere is masqueraded");
  app.add_option("--nodeport-addresses", node_port_addresses,
                 "Where nodePorts are accepted: \"primary\" or address blocks separated by commas")
      ->capture_default_str();
  app.add_flag("!--no-external-ips", options.external_ips,
               "Leave spec.externalIPs alone, as kube-proxy without AllowServiceExternalIPs");
  app.add_flag("--cleanup", options.cleanup, "Remove our nftables tables, nothing else, and exit");
  app.add_flag("-v", options.verbosity, "More log lines; -vv for all");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  if (options.listen.empty()) options.listen = {kDefaultListen};
  options.node_name = NodeName(options.node_name);

  absl::Status problem;
  const absl::StatusOr<proxy::RulesetOptions> ruleset = ParseClusterCidr(cluster_cidr);
  const absl::StatusOr<proxy::NodePortAddresses> addresses =
      proxy::NodePortAddresses::Parse(node_port_addresses);
  if (!ruleset.ok()) {
    problem = ruleset.status();
  } else if (!addresses.ok()) {
    problem = Annotate(addresses.status(), "--nodeport-addresses");
  } else {
    options.ruleset = *ruleset;
    options.node_port_addresses = *addresses;
  }
  for (const std::string& listen : options.listen) {
    const absl::StatusOr<std::string> address = GrpcAddress(listen, options.insecure);
    if (problem.ok() && !address.ok()) problem = address.status();
  }
  if (!problem.ok()) {
    std::fprintf(stderr, "svcmapd: %s\n", std::string(problem.message()).c_str());
    parsed.exit = 2;
  }
  return parsed;
}

}  // namespace svcmap::api
