#include "api/daemon/options.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "api/config/detect_local.h"
#include "api/convert/quote.h"
#include "api/version/version.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Flags that are ignored with --config, as in kube-proxy (S-318).
constexpr const char* kFlagsOfTheFile[] = {
    "--detect-local-mode",         "--cluster-cidr",           "--pod-bridge-interface",
    "--pod-interface-name-prefix", "--masquerade-all",         "--nodeport-addresses",
    "--healthz-bind-address",      "--bind-address-hard-fail", "--metrics-bind-address"};

// Limits for controllers. If a limit is exceeded, the error names the flag that sets the limit. See
// the message Limits in control.proto.
void AddLimits(CLI::App& app, DaemonOptions& options) {
  PushLimits& push = options.push_limits;
  proxy::StateLimits& state = options.state_limits;
  const auto add = [&app](const char* flag, auto& limit, uint64_t min, uint64_t max,
                          const char* description) {
    using Number = std::decay_t<decltype(limit)>;
    app.add_option(flag, limit, description)
        ->check(CLI::Range(static_cast<Number>(min), static_cast<Number>(max)))
        ->capture_default_str();
  };
  constexpr uint64_t kTera = uint64_t{1} << 40;
  add("--max-objects", state.objects, 1, 10'000'000,
      "Maximum number of stored objects of all kinds");
  add("--max-bytes", state.bytes, 4096, kTera,
      "Maximum total size of all stored objects as sent, in bytes");
  add("--max-elements", state.elements, 1, kTera,
      "Maximum number of map elements of all Services, measured as ports times endpoints plus 4 "
      "times ports times addresses");
  add("--max-endpoints-per-service", state.endpoints_per_service, 1, 1'000'000,
      "Maximum number of endpoints of a Service per IP family, including endpoints that are not "
      "ready");
  add("--max-batch-bytes", push.max_batch_bytes, 4096, 1 << 30,
      "Maximum size of a message from a controller");
  add("--max-batches-in-flight", push.max_batches_in_flight, 1, 10'000,
      "Maximum number of unacknowledged batches per stream; svcmapd then stops reading from the "
      "stream");
  add("--max-bytes-in-flight", push.max_bytes_in_flight, 4096, kTera,
      "Maximum size of unacknowledged batches per stream; svcmapd then stops reading from the "
      "stream");
  add("--max-streams", push.max_streams, 1, 10'000,
      "Maximum number of open push streams per connection");
  add("--max-connections", push.max_connections, 1, 100'000,
      "Maximum total number of open connections from controllers and svcmapctl");
  add("--max-connections-per-peer", push.max_connections_per_peer, 1, 100'000,
      "Maximum number of open connections from one IPv4 address, IPv6 /64 network, certificate "
      "name or Unix user");
  add("--max-watchers", push.max_watchers, 0, 10'000, "Maximum number of open watch streams");
}

}  // namespace

Parsed<DaemonOptions> ParseDaemonOptions(int argc, char** argv) {
  Parsed<DaemonOptions> parsed;
  DaemonOptions& options = parsed.options;
  DetectLocalFlags detect_local;
  proxy::RulesetOptions& ruleset = options.ruleset;
  std::string repeat_lookups = "auto";
  int masquerade_bit = 14;  // Default of kube-proxy (S-300).
  std::string node_port_addresses = "primary";
  std::string config_path;
  std::string write_config_to;
  std::string healthz = "0.0.0.0:10256";    // Default of kube-proxy (S-250).
  std::string metrics = "127.0.0.1:10249";  // Default of kube-proxy (S-267).

  CLI::App app("Programs Kubernetes Services into nftables maps on this node.", "svcmapd");
  app.set_version_flag("--version", VersionLine("svcmapd"));
  ListenOptions& listeners = options.listeners;
  app.add_option("--listen", listeners.listen,
                 std::string("Address for controllers and svcmapctl, unix:///path or "
                             "tcp://host:port; repeatable [") +
                     kDefaultListen + "]");
  app.add_option("--tls-cert", listeners.tls.certificate,
                 "PEM file with the server certificate and its intermediates for tcp:// listeners");
  app.add_option("--tls-key", listeners.tls.key, "PEM file with the private key of --tls-cert");
  app.add_option("--tls-client-ca", listeners.tls.ca,
                 "PEM file with the CAs of client certificates; clients without a certificate from "
                 "one of these CAs are rejected");
  app.add_option("--allow-write", listeners.allow.write_names,
                 "Certificate name (DNS name, URI or IP address) of clients that may read and "
                 "write over tcp://; repeatable [any client, if --allow-read is not set either]")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--allow-read", listeners.allow.read_names,
                 "Certificate name of clients that may read over tcp://; repeatable")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--allow-write-uid", listeners.allow.write_uids,
                 "User ID of clients that may read and write over unix://, in addition to root and "
                 "the user of svcmapd; repeatable")
      ->type_name("UID")
      ->check(CLI::Range(uid_t{0}, std::numeric_limits<uid_t>::max()).description(""))
      ->allow_extra_args(false);
  app.add_option("--allow-read-uid", listeners.allow.read_uids,
                 "User ID of clients that may read over unix://; repeatable")
      ->type_name("UID")
      ->check(CLI::Range(uid_t{0}, std::numeric_limits<uid_t>::max()).description(""))
      ->allow_extra_args(false);
  app.add_flag("--insecure", listeners.insecure,
               "Allow tcp:// listeners without TLS; any client can read, no client can write");
  app.add_option("--manifests", options.manifests,
                 "Read the state from this file or directory of Kubernetes manifests and watch the "
                 "manifests for changes, instead of accepting controllers");
  app.add_option(
      "--config", config_path,
      "kube-proxy configuration file (KubeProxyConfiguration) in YAML or JSON; overrides the flags "
      "that kube-proxy also has, except --node-name and -v; svcmapd exits when the file changes");
  app.add_option("--node-name,--hostname-override", options.node_name,
                 "Name of this node [the host name]");
  app.add_option("--detect-local-mode", detect_local.mode,
                 "Method to detect traffic from local pods; svcmapd masquerades cluster IP traffic "
                 "from other sources")
      ->check(CLI::IsMember({kClusterCidrMode, kNodeCidrMode, kBridgeMode, kPrefixMode}))
      ->capture_default_str();
  app.add_option("--cluster-cidr", detect_local.cluster_cidr,
                 "Pod CIDRs for mode ClusterCIDR, at most one per IP family, comma-separated");
  app.add_option("--pod-bridge-interface", detect_local.bridge_interface,
                 "Interface on which packets from pods arrive, for mode BridgeInterface");
  app.add_option("--pod-interface-name-prefix", detect_local.interface_name_prefix,
                 "Name prefix of the interfaces on which packets from pods arrive, for mode "
                 "InterfaceNamePrefix");
  app.add_flag("--masquerade-all", ruleset.masquerade_all, "Masquerade all traffic to cluster IPs");
  app.add_option("--nodeport-addresses", node_port_addresses,
                 "Node addresses that accept node ports: a comma-separated list of CIDRs and the "
                 "keywords \"primary\", \"localhost\" and \"all\"")
      ->capture_default_str();
  app.add_flag(
      "!--no-localhost-nodeports", options.localhost_node_ports,
      "Do not accept node ports on 127.0.0.1 and ::1, even if --nodeport-addresses contains "
      "\"localhost\" or a CIDR of loopback addresses");
  app.add_flag("!--no-external-ips", options.external_ips, "Ignore spec.externalIPs of Services");
  app.add_option("--state-dir", options.state_dir,
                 "Directory for the last accepted state, which is restored after a restart; an "
                 "empty value disables saving")
      ->capture_default_str();
  app.add_option("--healthz-bind-address", healthz,
                 "Address and port of /healthz and /livez; an empty value disables them")
      ->capture_default_str();
  app.add_option("--metrics-bind-address", metrics,
                 "Address and port of /metrics; an empty value or 0 disables it")
      ->capture_default_str();
  app.add_flag("--bind-address-hard-fail", options.bind_address_hard_fail,
               "Exit if the health or metrics address cannot be bound, instead of retrying every "
               "5 s");
  app.add_flag(
      "--service-counters", ruleset.count_connections,
      "Count new connections per Service and export them at /metrics, with one series per address "
      "and port of a Service port");
  app.add_flag("--reset-stale-tcp", options.reset_stale_tcp,
               "Reset TCP connections via Services to endpoints that have been in no EndpointSlice "
               "of the Service for 1 s");
  app.add_flag(
      "--answer-ping", ruleset.answer_ping,
      "Answer ICMP and ICMPv6 echo requests to cluster IPs, external IPs and load balancer "
      "IPs on this node");
  app.add_flag("--port-ranges", ruleset.port_ranges,
               "Program Service ports with endPort, which are port ranges");
  app.add_option("--repeat-lookups", repeat_lookups,
                 "Repeat lookups of Service addresses that miss, because old kernels can miss a "
                 "Service while it changes: \"on\", \"off\", or \"auto\" for \"on\" before Linux "
                 "6.17, except for 6.12.48 and newer versions of 6.12")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  AddLimits(app, options);
  app.add_option("--hold-removals", options.hold_removals,
                 "Hold the removals of a snapshot until svcmapctl accept-snapshot if they are at "
                 "least this percentage of the objects of one kind, and there are at least 20 "
                 "objects; 0 disables this check")
      ->check(CLI::Range(0u, 100u))
      ->type_name("PERCENT")
      ->capture_default_str();
  CLI::Option* cleanup =
      app.add_flag("--cleanup", options.cleanup,
                   "Delete svcmapd's nftables tables and the state in --state-dir, and exit");
  app.add_flag("--stay", options.stay,
               "With --cleanup: wait for SIGTERM instead of exiting after a successful cleanup, "
               "because the pods of a DaemonSet cannot complete")
      ->needs(cleanup);
  app.add_flag(
      "--remove-kube-proxy", options.remove_kube_proxy,
      "Remove kube-proxy's nftables tables and iptables chains after svcmapd has programmed all "
      "Services and kube-proxy has exited");
  app.add_flag("--preflight", options.preflight,
               "Print a report about this node as JSON for svcmapctl migrate check, and exit");
  app.add_option("--write-config-to", write_config_to,
                 "Write a configuration file with all defaults, and exit");
  app.add_flag(
      "--init-only", options.init_only,
      "Write the sysctls configured in --config, check the kernel, and exit; for a privileged "
      "init container");
  app.add_flag("-v", options.verbosity, "Log debug messages; -vv logs trace messages");
  parsed.exit = Parse(app, argc, argv);
  if (parsed.exit) return parsed;
  if (!write_config_to.empty()) {
    std::ofstream file(write_config_to);
    parsed.exit = (file << WriteDefaultConfiguration()).flush() ? 0 : 1;
    if (parsed.exit != 0) {
      std::fprintf(stderr, "svcmapd: --write-config-to: cannot write %s: %s\n",
                   write_config_to.c_str(), std::strerror(errno));
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
      ruleset.masquerade_all = c.nftables.masquerade_all;
      masquerade_bit = c.nftables.masquerade_bit;
      node_port_addresses = absl::StrJoin(c.node_port_addresses, ",");
      healthz = c.healthz_bind_address;
      metrics = c.metrics_bind_address;
      options.bind_address_hard_fail = c.bind_address_hard_fail;
      const auto& gates = c.feature_gates;
      const auto external_ips = gates.find(kExternalIpsGate);
      if (external_ips != gates.end() && !external_ips->second) options.external_ips = false;
      const auto localhost = gates.find(kLocalhostNodePortsGate);
      if (localhost != gates.end() && !localhost->second) options.localhost_node_ports = false;
      if (options.node_name.empty()) options.node_name = c.hostname_override;
      if (app.count("-v") == 0) options.verbosity = VerbosityOf(c.logging.verbosity);
      for (const char* flag : kFlagsOfTheFile) {
        if (app.count(flag) == 0) continue;
        file->findings.push_back(std::string(flag) + " is ignored because --config is set");
      }
      options.config = *std::move(file);
    } else {
      problem = file.status();
    }
  }
  const std::string given_name = options.node_name;
  options.node_name = NodeName(given_name);
  if (problem.ok() && options.node_name.empty()) {
    problem = absl::InvalidArgumentError("--node-name: Invalid value: " + Quote(given_name) +
                                         ": must not be blank");
  }

  ruleset.masquerade_mark = uint32_t{1} << masquerade_bit;
  const absl::StatusOr<proxy::RulesetOptions> parsed_ruleset =
      ParseDetectLocal(detect_local, {}, ruleset);
  const absl::StatusOr<proxy::NodePortAddresses> addresses =
      proxy::NodePortAddresses::Parse(node_port_addresses);
  if (problem.ok() && !parsed_ruleset.ok()) {
    problem = parsed_ruleset.status();
  } else if (problem.ok() && !addresses.ok()) {
    problem = Annotate(addresses.status(), "--nodeport-addresses");
  } else if (problem.ok()) {
    ruleset = *parsed_ruleset;
    if (repeat_lookups != "auto") options.repeat_lookups = repeat_lookups == "on";
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
  if (problem.ok()) problem = ParseListeners(listeners).status();
  if (!problem.ok()) parsed.exit = UsageError("svcmapd", problem);
  return parsed;
}

bool CanMissReplacedKeys(const std::string& release) {
  int major = 0, minor = 0, patch = 0;  // For example 6.12.48. A missing part counts as 0.
  std::sscanf(release.c_str(), "%d.%d.%d", &major, &minor, &patch);
  if (major == 6 && minor == 12) return patch < 48;
  return std::pair(major, minor) < std::pair(6, 17);
}

}  // namespace svcmap::api
