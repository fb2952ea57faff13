#include "api/daemon/options.h"

#include <CLI/CLI.hpp>
#include <fstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "api/config/detect_local.h"
#include "api/config/program_options.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Which kube-proxy ignores as well where there is a file (S-318).
constexpr const char* kFlagsOfTheFile[] = {
    "--detect-local-mode",         "--cluster-cidr",           "--pod-bridge-interface",
    "--pod-interface-name-prefix", "--masquerade-all",         "--nodeport-addresses",
    "--healthz-bind-address",      "--bind-address-hard-fail", "--metrics-bind-address"};

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

ParsedOptions ParseDaemonOptions(int argc, char** argv) {
  ParsedOptions parsed;
  DaemonOptions& options = parsed.options;
  DetectLocalFlags detect_local;
  bool masquerade_all = false;
  bool service_counters = false;
  int masquerade_bit = 14;  // S-300
  std::string node_port_addresses = "primary";
  std::string config_path;
  std::string write_config_to;
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
  app.add_option(
      "--config", config_path,
      "kube-proxy's configuration file, a KubeProxyConfiguration, as YAML or JSON; what it "
      "says counts instead of the flags that kube-proxy has, too, but for --node-name "
      "and -v (docs/configuration.md). A change of the file ends svcmapd, to be started again");
  app.add_option("--node-name,--hostname-override", options.node_name,
                 "Name of this node (default: the host name)");
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
  app.add_flag(
      "--service-counters", service_counters,
      "Count the new connections to each Service and tell them at /metrics: one series for "
      "each address and port of each Service port");
  AddLimits(app, options);
  app.add_flag("--cleanup", options.cleanup,
               "Remove our nftables tables and what is in --state-dir, nothing else, and exit");
  app.add_flag(
      "--remove-kube-proxy", options.remove_kube_proxy,
      "Once our tables serve everything and no kube-proxy runs here, remove the rules that "
      "it left: its nftables tables, and its chains in iptables of either flavour "
      "(docs/migration.md)");
  app.add_flag("--preflight", options.preflight,
               "Print what is found on this node, as JSON for svcmapctl migrate check, and exit");
  app.add_option("--write-config-to", write_config_to,
                 "Write a configuration file that says every default, and exit");
  app.add_flag("--init-only", options.init_only,
               "Write the sysctls that --config asks for, check what the kernel can do, and exit: "
               "for an init container that may do more than svcmapd");
  app.add_flag("-v", options.verbosity, "More log lines; -vv for all");
  try {
    app.parse(ReversedArguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    parsed.exit = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  if (!write_config_to.empty()) {
    std::ofstream file(write_config_to);
    parsed.exit = (file << WriteDefaultConfiguration()).flush() ? 0 : 1;
    if (parsed.exit != 0) {
      std::fprintf(stderr, "svcmapd: cannot write %s\n", write_config_to.c_str());
    }
    return parsed;
  }
  if (listeners.listen.empty()) listeners.listen = {kDefaultListen};
  absl::Status problem;
  if (!config_path.empty()) {
    absl::StatusOr<ConfigurationFile> file = ReadConfigurationFile(config_path);
    if (file.ok()) {
      const KubeProxyConfiguration& c = file->config;
      detect_local = {c.detect_local_mode, c.cluster_cidr, c.detect_local.bridge_interface,
                      c.detect_local.interface_name_prefix};
      masquerade_all = c.nftables.masquerade_all;
      masquerade_bit = c.nftables.masquerade_bit;
      node_port_addresses = absl::StrJoin(c.node_port_addresses, ",");
      healthz = c.healthz_bind_address;
      metrics = c.metrics_bind_address;
      options.bind_address_hard_fail = c.bind_address_hard_fail;
      if (options.node_name.empty()) options.node_name = c.hostname_override;
      if (app.count("-v") == 0) options.verbosity = VerbosityOf(c.logging.verbosity);
      for (const char* flag : kFlagsOfTheFile) {
        if (app.get_option_no_throw(flag) == nullptr || app.count(flag) == 0) continue;
        file->findings.push_back(std::string(flag) + " is ignored: with --config that file counts");
      }
      options.config = *std::move(file);
    } else {
      problem = file.status();
    }
  }
  options.node_name = NodeName(options.node_name);
  if (problem.ok() && options.node_name.empty()) {
    problem = absl::InvalidArgumentError("the name of this node is blank; give it by --node-name");
  }

  const absl::StatusOr<proxy::RulesetOptions> ruleset = ParseDetectLocal(detect_local);
  const absl::StatusOr<proxy::NodePortAddresses> addresses =
      proxy::NodePortAddresses::Parse(node_port_addresses);
  if (problem.ok() && !ruleset.ok()) {
    problem = ruleset.status();
  } else if (problem.ok() && !addresses.ok()) {
    problem = Annotate(addresses.status(), "--nodeport-addresses");
  } else if (problem.ok()) {
    options.ruleset = *ruleset;
    options.ruleset.masquerade_all = masquerade_all;
    options.ruleset.masquerade_mark = uint32_t{1} << masquerade_bit;
    options.ruleset.count_connections = service_counters;
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
    for (const auto& line : absl::StrSplit(std::string(problem.message()), '\n')) {
      std::fprintf(stderr, "svcmapd: %s\n", std::string(line).c_str());
    }
    parsed.exit = 2;
  }
  return parsed;
}

}  // namespace svcmap::api
