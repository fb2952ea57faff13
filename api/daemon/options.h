// Command-line options of svcmapd.
#pragma once

#include <optional>
#include <string>

#include "api/access/access.h"
#include "api/config/kube_proxy_config.h"
#include "api/config/program_options.h"
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
  std::string manifests;  // Path of the manifests. Empty if controllers send the state.
  std::string node_name;  // Name of this node in lower case.
  proxy::RulesetOptions ruleset;
  // Whether the rules repeat missed lookups. If absent, the kernel's version decides.
  std::optional<bool> repeat_lookups;
  proxy::NodePortAddresses node_port_addresses;
  // True if nodePorts accept connections on the loopback addresses in `node_port_addresses`.
  bool localhost_node_ports = true;
  bool reset_stale_tcp = false;  // True if TCP connections to removed endpoints are reset.
  bool external_ips = true;      // True if spec.externalIPs is programmed (S-6).
  std::string state_dir = kDefaultStateDir;         // If empty, no state is saved.
  std::optional<BindAddress> healthz_bind_address;  // If absent, /healthz is not served.
  std::optional<BindAddress> metrics_bind_address;  // If absent, /metrics is not served.
  bool bind_address_hard_fail = false;
  PushLimits push_limits;
  proxy::StateLimits state_limits;
  unsigned hold_removals = 50;  // See proxy::LoopOptions.
  bool cleanup = false;
  bool stay = false;  // True if svcmapd waits for SIGTERM after the cleanup.
  bool remove_kube_proxy = false;
  bool preflight = false;
  int verbosity = 0;
  // The --config file. If the file has a field for one of the options above, the option has the
  // value of the field.
  std::optional<ConfigurationFile> config;
  bool init_only = false;
};

Parsed<DaemonOptions> ParseDaemonOptions(int argc, char** argv);

// For --repeat-lookups (docs/decisions/0011): returns true if the kernel can miss a key of a map
// while a commit replaces the data of the key. `release` is the output of `uname -r`. Linux 6.17
// and 6.12.48 corrected this error (Linux commit b2f742c846ca). Returns true if the version is
// unknown.
bool CanMissReplacedKeys(const std::string& release);

}  // namespace svcmap::api
