#include "api/daemon/options.h"

#include <net/if.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <climits>

#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr uint16_t kHealthzPort = 10256;
constexpr uint16_t kMetricsPort = 10249;

constexpr char kClusterCidrMode[] = "ClusterCIDR";
constexpr char kNodeCidrMode[] = "NodeCIDR";
constexpr char kBridgeMode[] = "BridgeInterface";
constexpr char kPrefixMode[] = "InterfaceNamePrefix";

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

// What the kernel takes as a name, or the first part of one.
absl::Status CheckInterface(const std::string& flag, const std::string& name) {
  const auto odd = [](unsigned char c) { return c <= ' ' || c == '/' || c == '*' || c == '"'; };
  if (name.empty()) return absl::InvalidArgumentError(flag + " is needed in this mode");
  if (name.size() >= IFNAMSIZ || std::any_of(name.begin(), name.end(), odd)) {
    return absl::InvalidArgumentError(flag + " \"" + name +
                                      "\" is no interface name (at most 15 characters, no blanks, "
                                      "'/', '*' or quotes)");
  }
  return absl::OkStatus();
}

// What is over a limit is refused and says which; see Limits in control.proto.
void AddLimits(CLI::App& app, DaemonOptions& options) {
  PushLimits& push = options.push_limits;
  proxy::StateLimits& state = options.state_limits;
  app.add_option("--max-objects", state.objects, "How many objects are held, of all kinds together")
      ->check(CLI::Range(size_t{1}, size_t{10'000'000}))
      ->capture_default_str();
  app.add_option("--max-endpoints-per-service", state.endpoints_per_service,
                 "How many endpoints a Service may have in one family, ready or not")
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--max-batch-bytes", push.max_batch_bytes,
                 "How many bytes a message of a controller may have")
      ->check(CLI::Range(uint32_t{4096}, uint32_t{1} << 30))
      ->capture_default_str();
  app.add_option("--max-batches-in-flight", push.max_batches_in_flight,
                 "After so many batches without an ack no more are read of a stream")
      ->check(CLI::Range(uint32_t{1}, uint32_t{10'000}))
      ->capture_default_str();
  app.add_option("--max-bytes-in-flight", push.max_bytes_in_flight,
                 "After so many bytes of batches without an ack no more are read of a stream")
      ->check(CLI::Range(uint64_t{4096}, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--max-streams", push.max_streams, "How many streams controllers may have open")
      ->check(CLI::Range(uint32_t{1}, uint32_t{10'000}))
      ->capture_default_str();
  app.add_option("--max-watchers", push.max_watchers, "How many may watch at a time")
      ->check(CLI::Range(uint32_t{0}, uint32_t{10'000}))
      ->capture_default_str();
}

}  // namespace

absl::StatusOr<proxy::RulesetOptions> ParseDetectLocal(const DetectLocalFlags& flags) {
  if (flags.mode == kClusterCidrMode) return ParseClusterCidr(flags.cluster_cidr);
  proxy::RulesetOptions options;
  if (flags.mode == kNodeCidrMode) {
    options.detect_local = proxy::DetectLocal::kNodeCidr;
    return options;
  }
  const bool bridge = flags.mode == kBridgeMode;
  const std::string& name = bridge ? flags.bridge_interface : flags.interface_name_prefix;
  const absl::Status status =
      CheckInterface(bridge ? "--pod-bridge-interface" : "--pod-interface-name-prefix", name);
  if (!status.ok()) return status;
  options.detect_local = proxy::DetectLocal::kInterface;
  options.interface = bridge ? name : name + "*";
  return options;
}

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

namespace {

// CLI11 takes "--option=" for an option without a value: of two arguments the second may be empty.
// In reverse, as it wants them.
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      argument.pop_back();
      arguments.emplace_back();
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace

ParsedOptions ParseDaemonOptions(int argc, char** argv) {
  ParsedOptions parsed;
  DaemonOptions& options = parsed.options;
  DetectLocalFlags detect_local;
  bool masquerade_all = false;
  std::string node_port_addresses = "primary";
  std::string healthz = "0.0.0.0:10256";    // S-250
  std::string metrics = "127.0.0.1:10249";  // S-267

  CLI::App app("svcmapd programs this node's Kubernetes Services into nftables maps.", "svcmapd");
  app.set_version_flag("--version", std::string("svcmapd ") + SVCMAP_VERSION);
  ListenOptions& listeners = options.listeners;
  app.add_option("--listen", listeners.listen,
                 std::string("Where controllers and svcmapctl connect: unix:///path or "
                             "tcp://host:port; repeatable (default ") +
                     kDefaultListen + ")");
  app.add_option("--tls-cert", listeners.tls.certificate,
                 "For tcp://: PEM file of our certificate and its intermediates. This and the next "
                 "two are read anew for each connection; while what they hold cannot be used, what "
                 "was read before goes on");
  app.add_option("--tls-key", listeners.tls.key, "For tcp://: PEM file of the certificate's key");
  app.add_option("--tls-client-ca", listeners.tls.ca,
                 "For tcp://: PEM file of the CAs that sign clients' certificates; clients without "
                 "one are turned away");
  app.add_option("--allow-write", listeners.allow.write_names,
                 "For tcp://: who may change and read; a DNS name, URI or IP address as it stands "
                 "in the certificate's subject alternative names; repeatable. Without this and "
                 "--allow-read whoever the CA has signed may write")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--allow-read", listeners.allow.read_names, "For tcp://: who may read, likewise")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--allow-write-uid", listeners.allow.write_uids,
                 "For unix://: who may change and read, besides root and our own uid; repeatable. "
                 "With this or the next one everybody can open the socket, and others are turned "
                 "away")
      ->type_name("UID")
      ->allow_extra_args(false);
  app.add_option("--allow-read-uid", listeners.allow.read_uids,
                 "For unix://: who may read, likewise")
      ->type_name("UID")
      ->allow_extra_args(false);
  app.add_flag(
      "--insecure", listeners.insecure,
      "Allow tcp:// listeners without TLS: whoever reaches them may read, nobody may write");
  app.add_option("--manifests", options.manifests,
                 "Take the state from this file or folder of Kubernetes manifests, and follow it, "
                 "instead of a controller");
  app.add_option("--node-name", options.node_name, "Name of this node (default: the host name)");
  app.add_option("--detect-local-mode", detect_local.mode,
                 "How pods are told from other sources; clusterIP traffic of others is masqueraded")
      ->check(CLI::IsMember({kClusterCidrMode, kNodeCidrMode, kBridgeMode, kPrefixMode}))
      ->capture_default_str();
  app.add_option("--cluster-cidr", detect_local.cluster_cidr,
                 "For ClusterCIDR: the pods' address blocks, one per family, separated by a comma; "
                 "without one, nobody is told apart in that family");
  app.add_option("--pod-bridge-interface", detect_local.bridge_interface,
                 "For BridgeInterface: pods' packets come in by this interface");
  app.add_option("--pod-interface-name-prefix", detect_local.interface_name_prefix,
                 "For InterfaceNamePrefix: pods' packets come in by interfaces named like this");
  app.add_flag("--masquerade-all", masquerade_all, "Masquerade all traffic to clusterIPs");
  app.add_option("--nodeport-addresses", node_port_addresses,
                 "Where nodePorts are accepted: \"primary\" or address blocks separated by commas")
      ->capture_default_str();
  app.add_flag("!--no-external-ips", options.external_ips,
               "Leave spec.externalIPs alone, as kube-proxy without AllowServiceExternalIPs");
  app.add_option("--state-dir", options.state_dir,
                 "Keep the last accepted state in this folder and serve it after a restart; empty: "
                 "keep nothing and wait for a controller. One folder for each agent")
      ->capture_default_str();
  app.add_option("--healthz-bind-address", healthz,
                 "Where /healthz and /livez are served, address:port; empty: nowhere")
      ->capture_default_str();
  app.add_option("--metrics-bind-address", metrics,
                 "Where /metrics is served for Prometheus, address:port; empty or 0: nowhere")
      ->capture_default_str();
  app.add_flag("--bind-address-hard-fail", options.bind_address_hard_fail,
               "Exit if one of these addresses cannot be had, instead of trying again every 5 s");
  AddLimits(app, options);
  app.add_flag("--cleanup", options.cleanup,
               "Remove our nftables tables and what is in --state-dir, nothing else, and exit");
  app.add_flag("-v", options.verbosity, "More log lines; -vv for all");
  try {
    app.parse(Arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    parsed.exit = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  if (listeners.listen.empty()) listeners.listen = {kDefaultListen};
  options.node_name = NodeName(options.node_name);

  absl::Status problem;
  const absl::StatusOr<proxy::RulesetOptions> ruleset = ParseDetectLocal(detect_local);
  const absl::StatusOr<proxy::NodePortAddresses> addresses =
      proxy::NodePortAddresses::Parse(node_port_addresses);
  if (!ruleset.ok()) {
    problem = ruleset.status();
  } else if (!addresses.ok()) {
    problem = Annotate(addresses.status(), "--nodeport-addresses");
  } else {
    options.ruleset = *ruleset;
    options.ruleset.masquerade_all = masquerade_all;
    options.node_port_addresses = *addresses;
  }
  const auto bind = [&](const char* flag, const std::string& text, uint16_t default_port,
                        std::optional<BindAddress>& to) {
    const absl::StatusOr<BindAddress> at = BindAddress::Parse(text, default_port);
    if (at.ok()) {
      to = *at;
    } else if (problem.ok()) {
      problem = Annotate(at.status(), flag);
    }
  };
  if (!healthz.empty()) {
    bind("--healthz-bind-address", healthz, kHealthzPort, options.healthz_bind_address);
  }
  if (!metrics.empty() && metrics != "0") {
    bind("--metrics-bind-address", metrics, kMetricsPort, options.metrics_bind_address);
  }
  if (problem.ok()) problem = CheckListeners(listeners);
  if (!problem.ok()) {
    std::fprintf(stderr, "svcmapd: %s\n", std::string(problem.message()).c_str());
    parsed.exit = 2;
  }
  return parsed;
}

}  // namespace svcmap::api
