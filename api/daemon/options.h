// What svcmapd is told on its command line, checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/access/listeners.h"
#include "api/grpc/push_limits.h"
#include "api/health/bind_address.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/limits.h"

namespace svcmap::api {

inline constexpr char kDefaultListen[] = "unix:///run/svcmap/svcmap.sock";

inline constexpr char kDefaultStateDir[] = "/var/lib/svcmap";

struct DaemonOptions {
  ListenOptions listeners;
  std::string manifests;  // A file or folder; empty: controllers push.
  std::string node_name;  // Lower case.
  proxy::RulesetOptions ruleset;
  proxy::NodePortAddresses node_port_addresses;
  bool external_ips = true;                  // spec.externalIPs of Services is programmed (S-6).
  std::string state_dir = kDefaultStateDir;  // Empty: no state is kept on disk.
  std::optional<BindAddress> healthz_bind_address;  // Nothing: /healthz is not served.
  std::optional<BindAddress> metrics_bind_address;  // Nothing: metrics are not served.
  bool bind_address_hard_fail = false;
  PushLimits push_limits;
  proxy::StateLimits state_limits;
  bool cleanup = false;
  int verbosity = 0;
};

// Reads the command line. Where the program shall end at once (--help, --version, bad usage) `exit`
// is set, and what there is to say was printed.
struct ParsedOptions {
  DaemonOptions options;
  std::optional<int> exit;
};
ParsedOptions ParseDaemonOptions(int argc, char** argv);

// How pods are told from other sources, as kube-proxy's flags of the same names say it
// (S-64..S-68). Only the flag that belongs to `mode` is
// read.
struct DetectLocalFlags {
  std::string mode = "ClusterCIDR";  // NodeCIDR, BridgeInterface, InterfaceNamePrefix
  std::string cluster_cidr;
  std::string bridge_interface;
  std::string interface_name_prefix;
};
absl::StatusOr<proxy::RulesetOptions> ParseDetectLocal(const DetectLocalFlags& flags);

// "10.244.0.0/16" or "10.244.0.0/16,fd00:10:244::/56": at most one block of each family (S-69).
absl::StatusOr<proxy::RulesetOptions> ParseClusterCidr(const std::string& text);

}  // namespace svcmap::api
